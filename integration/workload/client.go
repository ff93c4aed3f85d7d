package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The libraries by name. Both alternates between them.
const (
	Franz      = "franz"
	Librdkafka = "librdkafka"
	Both       = "both"
)

var (
	// ErrNotLinked says that this binary was built without a library.
	ErrNotLinked = errors.New("this binary has no librdkafka: build it with -tags librdkafka and CGO_ENABLED=1")
	// ErrNoLibrary says that there is no library of a name.
	ErrNoLibrary = errors.New("known are " + Franz + ", " + Librdkafka + " and " + Both)
)

// CheckClient says whether clients of a library can be had: nil, ErrNotLinked or ErrNoLibrary.
func CheckClient(name string) error {
	_, err := librariesOf(name)
	return err
}

// librariesOf gives the libraries of a name; empty is franz-go's.
func librariesOf(name string) ([]library, error) {
	switch {
	case name == Franz || name == "":
		return []library{franz{}}, nil
	case name != Librdkafka && name != Both:
		return nil, ErrNoLibrary
	case linked == nil:
		return nil, ErrNotLinked
	case name == Librdkafka:
		return []library{linked}, nil
	}
	return []library{franz{}, linked}, nil
}

// library makes clients of one Kafka library. It is safe for concurrent use; what it makes is for one goroutine.
type library interface {
	name() string
	producer(producerOptions) (producer, error)
	consumer(consumerOptions) (consumer, error)
}

// subscriber is a library whose consumers can be members of a group too.
type subscriber interface {
	library
	member(memberOptions) (member, error)
}

// producerOptions say how a producer writes.
type producerOptions struct {
	seeds []string
	id    string // of the client
	acks  string // 0, 1 or all
	once  bool   // without idempotence, and without trying again; else with both, which needs acks all

	transactional string // id, of a producer that sends in transactions only; it needs acks all, and excludes once
}

// producer writes one record after another.
type producer interface {
	// send writes a record and waits for its end, sendWithin or somewhat longer.
	send(ctx context.Context, to place, value []byte) delivery
	// begin begins a transaction, and end ends it. They are for producers with a transactional id.
	begin(ctx context.Context) error
	end(ctx context.Context, commit bool) (outcome, error)
	close()
}

// outcome is what became of a transaction.
type outcome int

// The outcomes. A transaction whose commit was never asked for counts as aborted, also where its abort failed: nobody can
// commit it any more, and the cluster aborts it in time.
const (
	unknown outcome = iota
	committed
	aborted
)

// delivery is what became of a record.
type delivery struct {
	offset  int64 // where it is; -1: not told, or err
	again   bool  // a producer without idempotence wrote it more than once, or nobody knows that it did not
	refused bool  // with err: it certainly is in no log and never will be. Without, it may be.
	err     error
}

// consumerOptions say what a consumer reads.
type consumerOptions struct {
	seeds []string
	id    string
	from  map[place]int64 // next offset of each partition; beginning for the start of its log
}

// beginning is the start of a log.
const beginning = -1

// consumer reads what is committed, in the order of each partition.
type consumer interface {
	// poll waits until ctx ends for records, and gives at most so many. Trouble that passes by itself is no error.
	poll(ctx context.Context, most int, each func(read)) error
	// ends asks for high watermarks. What cannot be told in time is left out.
	ends(ctx context.Context, of []place, each func(at place, high int64, epoch int32))
	close()
}

// memberOptions say what the member of a group reads.
type memberOptions struct {
	seeds  []string
	id     string
	group  string
	topics []string
}

// member is a consumer to whom its group gives partitions and takes them away, at any time. Each begins where the group has
// committed, or at the start of its log; what a poll gave is committed after the next one, by and by.
type member interface {
	consumer
	// moved gives the partitions that were given or taken away since the last call. One that was given is told of before
	// anything of it is polled.
	moved() []place
}

// read is what a consumer came to.
type read struct {
	from   place
	offset int64
	value  []byte
	passed bool // no record: a control record, or the last before the end of what is committed, which may be hidden
}

// Bounds that all libraries keep.
const (
	sendWithin    = 20 * time.Second       // of one record, with all its repeats
	requestWithin = 5 * time.Second        // of one request to write
	pollWithin    = 100 * time.Millisecond // of one poll
	pollMost      = 200                    // records of one poll
	endWithin     = 20 * time.Second       // of the begin or the end of a transaction
	abortAfter    = 10 * time.Second       // the cluster aborts a transaction that its client left open
	askWithin     = 2 * time.Second        // of a watermark
	sessionWithin = 6 * time.Second        // a silent member loses what it reads: the least that Kafka allows
	joinWithin    = 6 * time.Second        // of a member, in a rebalance: then the group goes on without it
	heartbeatEach = 500 * time.Millisecond // a member hears of a rebalance
	commitEach    = time.Second            // of what was polled
	dialWithin    = time.Second
	retryAfter    = 20 * time.Millisecond
	metadataAge   = 50 * time.Millisecond // the least; of one that was asked for
	partitionMost = 256 << 10             // bytes of one partition in an answer
)

// acksKnown are those that producers can ask for.
func acksKnown(acks string) error {
	if !slices.Contains([]string{"all", "0", "1"}, acks) {
		return fmt.Errorf("the workload has no clients that send with acks=%s", acks)
	}
	return nil
}
