package history

// Kind is what is wrong, by the names of Jepsen's Kafka tests and, from AckOffset on, by our own.
type Kind string

// Order of values: offsets are compressed to indexes without holes first, since control batches and what transactions left
// behind take offsets too. "Polled" is by any operation, since a poller must never give out what is not safe, unless it says
// "read", which is by an operation that was ok.
const (
	InconsistentOffsets Kind = "inconsistent-offsets" // one offset had two values
	Duplicate           Kind = "duplicate"            // one value was at two offsets
	LostWrite           Kind = "lost-write"           // a value that must be there was never read, though one after it was
	Unseen              Kind = "unseen"               // an acknowledged value was never read
	AbortedRead         Kind = "G1a"                  // a value of an operation that failed was read
	PrecommittedRead    Kind = "precommitted-read"    // a transaction polled what it sends itself

	IntPollSkip         Kind = "int-poll-skip"         // within one operation, polls left values out
	IntNonmonotonicPoll Kind = "int-nonmonotonic-poll" // within one operation, polls stood still or went back
	PollSkip            Kind = "poll-skip"             // the same from one operation of a process to its next
	NonmonotonicPoll    Kind = "nonmonotonic-poll"
	IntSendSkip         Kind = "int-send-skip" // sends of one operation have values of others between them
	IntNonmonotonicSend Kind = "int-nonmonotonic-send"
	NonmonotonicSend    Kind = "nonmonotonic-send"

	// Cycles. G0: of writes, each before the next in some log. G1c: of writes and the reads that saw them. With -process the
	// order of one process is needed to close them, with -realtime that one operation ended before another began.
	G0          Kind = "G0"
	G0Process   Kind = "G0-process"
	G0Realtime  Kind = "G0-realtime"
	G1c         Kind = "G1c"
	G1cProcess  Kind = "G1c-process"
	G1cRealtime Kind = "G1c-realtime"

	AckOffset     Kind = "ack-offset"     // the offset that a producer was told is not where its value is
	Phantom       Kind = "phantom"        // a value was polled, or is in a copy, that nobody sent
	SentTwice     Kind = "sent-twice"     // the harness sent a value twice: nothing can be said of it
	WatermarkBack Kind = "watermark-back" // a high watermark that a client was told is above a later one

	EpochBack    Kind = "epoch-back"    // in one copy, a batch has an older leader epoch than one before it
	CopiesDiffer Kind = "copies-differ" // two copies differ below the high watermarks of all
	Gap          Kind = "gap"           // a copy has no batch for an offset within it, or readers were not given what it has
	Miscount     Kind = "miscount"      // a batch has more or fewer records than offsets
	LostOnNode   Kind = "lost-on-node"  // an acknowledged value is not in the copy of a node
	DirtyRead    Kind = "dirty-read"    // what was polled at an offset is not what a copy has there
)

// Kinds are all kinds, in the order of reports.
var Kinds = []Kind{
	LostWrite, Unseen, LostOnNode, InconsistentOffsets, AckOffset, DirtyRead, CopiesDiffer, WatermarkBack, Phantom, AbortedRead,
	PrecommittedRead, Gap, Miscount, EpochBack, Duplicate, SentTwice, NonmonotonicPoll, PollSkip, IntNonmonotonicPoll,
	IntPollSkip, NonmonotonicSend, IntNonmonotonicSend, IntSendSkip, G1c, G1cProcess, G1cRealtime, G0, G0Process, G0Realtime,
}

// orderOnly are the kinds that make records come twice or in another order, while none is lost, wrong or shown too early.
var orderOnly = map[Kind]bool{
	Duplicate: true, SentTwice: true, NonmonotonicPoll: true, PollSkip: true, IntNonmonotonicPoll: true, IntPollSkip: true,
	NonmonotonicSend: true, IntNonmonotonicSend: true, IntSendSkip: true,
	G1c: true, G1cProcess: true, G1cRealtime: true, G0: true, G0Process: true, G0Realtime: true,
}
