package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Histories by hand at the limits of the rules: each is judged otherwise as soon as one condition of the checker is wider or
// narrower.

// brief is a report without its sentences.
func brief(r Report) string {
	var parts []string
	for _, a := range r.Anomalies {
		parts = append(parts, fmt.Sprintf("%s %d/%d", a.Kind, a.Count, a.Allowed))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// groups makes the groups of a history no transactions.
func groups(h *History) *History { h.Header.Transactions = false; return h }

func withFaults(h *History, f ...Fault) *History { h.Faults = f; return h }
func withLoss(h *History, l ...Loss) *History    { h.Losses = l; return h }
func withCopies(h *History, c ...Copy) *History  { h.Copies = c; return h }

func repeated(o Op) Op { o.Repeats = true; return o }

func TestWhatMustBeInALog(t *testing.T) {
	judge(t, []limitCase{
		{"a transaction is proven by the first of its values too", handMade(
			unsure(op(1, 0, 1, send(0, 1, 0), send(0, 2, 1))), op(1, 2, 3, send(0, 3, 2)), op(2, 6, 7, poll(at{0, 1, 0})), op(3, 6, 7, poll(at{0, 3, 2}))),
			"lost-write 1/0"},
		{"and not by a poll that failed", handMade(
			unsure(op(1, 0, 1, send(0, 1, 0), send(0, 2, 1))), op(1, 2, 3, send(0, 3, 2)), failed(op(2, 6, 7, poll(at{0, 1, 0}))), op(3, 6, 7, poll(at{0, 3, 2}))),
			"nothing"},
		{"one that was aborted is not, whoever read of it", handMade(
			failed(op(1, 0, 1, send(0, 1, 0), send(0, 2, 1))), op(1, 2, 3, send(0, 3, 2)), op(2, 6, 7, poll(at{0, 1, 0})), op(3, 6, 7, poll(at{0, 3, 2}))),
			"G1a 1/0"},
		{"what nobody must have committed leaves no place that a poll could skip", handMade(
			unsure(op(1, 0, 1, send(0, 2, 1))), op(1, 2, 3, send(0, 1, 0)), op(1, 4, 5, send(0, 3, 2)), op(2, 6, 7, poll(at{0, 1, 0}, at{0, 3, 2}))),
			"nothing"},
		{"a poll of which nobody knows whether it was given out is no read", handMade(op(1, 0, 1, send(0, 1, 0)), unsure(op(2, 6, 7, poll(at{0, 1, 0})))), "unseen 1/0"},
		{"a group that is no transaction, of which one is refused, may have the others", groups(handMade(
			unsure(op(1, 0, 1, send(0, 1, 0), send(0, 2, -1))), op(2, 6, 7, poll(at{0, 1, 0})))), "nothing"},
		{"but one that is certainly not done has none", groups(handMade(failed(op(1, 0, 1, send(0, 1, 0))))), "nothing"},
		{"what is beyond the last that was read is not lost in the middle, only unseen", handMade(
			op(1, 0, 1, send(0, 1, 5)), op(1, 2, 3, send(0, 2, 3)), failed(op(2, 4, 5, poll(at{0, 1, 0}))), op(3, 6, 7, poll(at{0, 2, 3}))),
			"unseen 1/0, ack-offset 1/0, duplicate 1/0"},
		{"a value read twice bounds what is lost by where it is first", handMade(
			op(1, 0, 1, send(0, 1, 5)), repeated(op(4, 0, 1, send(0, 2, 0))), op(3, 6, 7, poll(at{0, 2, 0}, at{0, 2, 9}))),
			"unseen 1/0, duplicate 1/1, int-poll-skip 1/0"},
		{"and the one whose first is the last, not whose last is", handMade(
			op(1, 0, 1, send(0, 1, 2)), repeated(op(4, 0, 1, send(0, 2, 0))), op(5, 0, 1, send(0, 3, 4)), op(3, 6, 7, poll(at{0, 2, 0})), op(4, 6, 7, poll(at{0, 2, 9})), op(5, 6, 7, poll(at{0, 3, 4}))),
			"lost-write 1/0, unseen 1/0, duplicate 1/1"},
	})
}

func TestWhatAnOffsetThatWasToldMeans(t *testing.T) {
	judge(t, []limitCase{
		{"one of a transaction that a read proves", handMade(unsure(op(1, 0, 1, send(0, 1, 7))), op(2, 2, 3, poll(at{0, 1, 6}))), "ack-offset 1/0, duplicate 1/0"},
		{"one that only a failed poll contradicts", handMade(op(1, 0, 1, send(0, 1, 7)), failed(op(2, 2, 3, poll(at{0, 1, 6}))), op(2, 4, 5, poll(at{0, 1, 6}))), "ack-offset 1/0, duplicate 1/0"},
		{"and nobody read it at all", handMade(op(1, 0, 1, send(0, 1, 7)), failed(op(2, 2, 3, poll(at{0, 1, 6})))), "unseen 1/0, ack-offset 1/0, duplicate 1/0"},
		{"it is flagged where it was seen", withLoss(handMade(op(1, 0, 1, send(0, 1, 7)), failed(op(2, 2, 3, poll(at{0, 1, 6})))), Loss{From: 6, To: 7, At: 9}),
			"unseen 1/1, ack-offset 1/1, duplicate 1/1"},
		{"it is flagged where it was told, and was written again", withLoss(handMade(op(1, 0, 1, send(0, 1, 7)), op(2, 2, 3, poll(at{0, 1, 6}))), Loss{From: 7, To: 8, At: 9}),
			"ack-offset 1/1, duplicate 1/1"},
	})
}

func TestWhatIsAllowedToWhom(t *testing.T) {
	crashed := func(acks string) *History {
		h := handMade(op(1, 0, 1, send(2, 1, 0)), unsure(keysOp(Crash, 1, 2, 3)))
		h.Header.Topics[1].Acks = acks
		return h
	}
	alone := func(acks string) *History {
		h := withFaults(handMade(op(1, 0, 1, send(2, 1, 0))), Fault{Name: "kill", End: 1})
		x := &h.Header.Topics[1]
		x.Replicas, x.MinISR, x.Acks = 1, 1, acks
		return h
	}
	stricter := func() *History {
		h := withFaults(handMade(op(1, 0, 1, send(2, 1, 0))), Fault{Name: "kill", End: 1})
		x := &h.Header.Topics[1]
		x.MinISR, x.Acks = 7, "3"
		return h
	}
	skips := func(first, second Mop) *History {
		return withFaults(handMade(op(1, 0, 1, send(2, 1, 0)), op(4, 0, 1, send(2, 2, 1)), op(5, 0, 1, send(2, 3, 2)), op(6, 0, 1, send(2, 4, 3)),
			op(3, 4, 5, poll(at{2, 1, 0}, at{2, 4, 3})), op(7, 6, 7, first), op(8, 6, 7, second)), Fault{Name: "kill", End: 1})
	}
	judge(t, []limitCase{
		{"acks=0 and a client that crashed", crashed("0"), "unseen 1/1"},
		{"acks=1 and a client that crashed", crashed("1"), "unseen 1/0"},
		{"acks=1 of a single replica is no commit", alone("1"), "unseen 1/1"},
		{"acks=-1 is all", alone("-1"), "unseen 1/0"},
		{"a count of all replicas is a commit, however many must be in sync", stricter(), "unseen 1/0"},
		{"a poll that leaves out two that are lost", skips(poll(), poll()), "lost-write 2/2, unseen 2/2, int-poll-skip 1/1"},
		{"and one of the two is there, the first", skips(poll(at{2, 2, 1}), poll()), "lost-write 1/1, unseen 1/1, int-poll-skip 1/0"},
		{"or the second", skips(poll(), poll(at{2, 3, 2})), "lost-write 1/1, unseen 1/1, int-poll-skip 1/0"},
		{"or one that nobody sent", withFaults(handMade(op(1, 0, 1, send(2, 1, 0)), op(6, 0, 1, send(2, 4, 3)),
			op(3, 4, 5, poll(at{2, 1, 0}, at{2, 4, 3})), op(7, 6, 7, poll(at{2, 0, 1}))), Fault{Name: "kill", End: 1}), "int-poll-skip 1/0"},
		{"or one that nobody sent behind one that is lost", withFaults(handMade(op(1, 0, 1, send(2, 1, 0)), op(4, 0, 1, send(2, 2, 1)), op(6, 0, 1, send(2, 4, 3)),
			op(3, 4, 5, poll(at{2, 1, 0}, at{2, 4, 3})), op(7, 6, 7, poll(at{2, 0, 2}))), Fault{Name: "kill", End: 1}), "lost-write 1/1, unseen 1/1, int-poll-skip 1/0"},
		{"two sends turned around, the second of which is lost", withFaults(handMade(op(1, 0, 1, send(2, 1, 1)), op(1, 2, 3, send(2, 2, 0)),
			op(3, 4, 5, poll(at{2, 1, 1}))), Fault{Name: "kill", End: 1}), "lost-write 1/1, unseen 1/1, nonmonotonic-send 1/1"},
	})
}

func TestWhoseOrderCounts(t *testing.T) {
	one := op(1, 0, 1, send(0, 1, 0))
	first, again := op(3, 2, 3, poll(at{0, 1, 0})), op(3, 6, 7, poll(at{0, 1, 0}))
	judge(t, []limitCase{
		{"an assignment goes on where a subscription was", handMade(one, keysOp(Subscribe, 3, 1, 2, 0), first, keysOp(Assign, 3, 4, 5, 0), again), "nonmonotonic-poll 1/0"},
		{"a new client is at nothing, and then at what it polled", handMade(one, keysOp(Subscribe, 3, 0, 1, 0), unsure(keysOp(Crash, 3, 1, 2)), first, again), "nonmonotonic-poll 1/0"},
		{"one that failed may not poll what it sends either", handMade(failed(op(1, 0, 1, send(0, 1, 0), poll(at{0, 1, 0})))), "precommitted-read 1/0"},
		{"nor one of which nobody knows what became", handMade(unsure(op(1, 0, 1, send(0, 1, 0), poll(at{0, 1, 0})))), "precommitted-read 1/0"},
		{"a cycle with one of which nobody knows what became", handMade(
			unsure(op(1, 0, 9, send(0, 1, 0), poll(at{1, 1, 0}))), op(2, 0, 9, send(1, 1, 0), poll(at{0, 1, 0})), op(3, 10, 11, poll(at{1, 1, 0}))), "G1c 1/0"},
		{"a cycle with one that polled its own is of both", handMade(
			op(1, 0, 9, send(0, 1, 0), poll(at{0, 1, 0}), poll(at{1, 1, 0})), op(2, 0, 9, send(1, 1, 0), poll(at{0, 1, 0}))), "precommitted-read 1/0, G1c 1/0"},
	})
	r := Check(handMade(op(1, 0, 9, send(0, 1, 0), poll(at{0, 1, 0}), poll(at{1, 1, 0})), op(2, 0, 9, send(1, 1, 0), poll(at{0, 1, 0}))))
	if ops := r.Anomalies[len(r.Anomalies)-1].Examples[0].Ops; !slices.Equal(ops, []int{0, 1}) {
		t.Errorf("the cycle is of %v", ops)
	}
	r = Options{WW: true}.Check(handMade(
		op(1, 0, 9, send(0, 1, 0), send(0, 2, 1), send(1, 4, 3)), op(2, 0, 9, send(0, 3, 2), send(1, 3, 2)), op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}, at{0, 3, 2}, at{1, 3, 2}, at{1, 4, 3}))))
	if a := r.Anomalies[len(r.Anomalies)-1]; a.Kind != G0 || !slices.Equal(a.Examples[0].Ops, []int{0, 1}) {
		t.Errorf("the cycle of writes, two of them in one transaction, is %s of %v", a.Kind, a.Examples[0].Ops)
	}
	r = Check(handMade(failed(op(1, 0, 1, send(0, 1, -1))), failed(op(2, 2, 3, poll(at{0, 1, 0}))), op(3, 4, 5, poll(at{0, 1, 0}))))
	if ops := r.Anomalies[0].Examples[0].Ops; r.Anomalies[0].Kind != AbortedRead || !slices.Equal(ops, []int{0, 2}) {
		t.Errorf("an aborted read names %v, of which the second must be the one that was ok", ops)
	}
}

func TestWhatCopiesProve(t *testing.T) {
	seenByFailed := handMade(op(1, 0, 1, send(0, 1, -1)), failed(op(2, 2, 3, poll(at{0, 1, 0}))), op(2, 4, 5, poll(at{0, 1, 1})))
	passed := func() *History {
		return groups(handMade(unsure(op(1, 0, 1, send(0, 1, -1))), op(1, 2, 3, send(0, 2, 1)), op(2, 4, 5, poll(at{0, 2, 1}))))
	}
	judge(t, []limitCase{
		{"what a failed poll gave out must be there too", withCopies(seenByFailed, copyOf(1, 0, 1)), "dirty-read 1/0, duplicate 1/0"},
		{"of a copy whose high watermark is beyond its end only what it has", withCopies(handMade(unsure(op(1, 0, 1, send(0, 1, -1), send(0, 2, -1))), op(2, 2, 3, poll(at{0, 1, 0}, at{0, 2, 1}))),
			copyOf(1, 1, 2), change(copyOf(2, 1), func(c *Copy) { c.High = 2 })), "nothing"},
		{"of copies that start elsewhere only what both have", three(change(copyOf(1, 1, -1, 2, 3), func(c *Copy) { c.Start, c.Batches = 2, c.Batches[2:] }), copyOf(2, 1, -1, 2, 3)), "nothing"},
		{"and of three the latest start", three(copyOf(1, 1, -1, 2, 3), change(copyOf(2, 1, -1, 2, 3), func(c *Copy) { c.Start, c.Batches = 2, c.Batches[2:] }), copyOf(3, 1, -1, 2, 3)), "nothing"},
		{"a batch that ends elsewhere", three(change(copyOf(1, 1, -1, 2, 3, -1), func(c *Copy) { c.Batches[4].Last, c.End, c.High = 5, 6, 6 }),
			change(copyOf(2, 1, -1, 2, 3, -1), func(c *Copy) { c.End, c.High = 6, 6 })), "copies-differ 1/0, gap 1/0"},
		{"the same checksum of other records", three(copyOf(1, 1, -1, 2, 3, 0), change(copyOf(2, 1, -1, 2, 3, 0), func(c *Copy) { c.Batches[4].Values = nil })), "copies-differ 1/0"},
		{"too few records in a batch", three(change(copyOf(1, 1, -1, 2, 3, 0), func(c *Copy) { c.Batches[4].Last, c.End, c.High = 5, 6, 6 })), "miscount 1/0"},
		{"a first batch that begins before the start, as retention leaves it", three(change(copyOf(1, 1, -1, 2, 3), func(c *Copy) {
			c.Start, c.Batches = 1, []Batch{{Base: 0, Last: 2, Values: []int64{1, 0, 2}}, c.Batches[3]}
		})), "nothing"},
		{"a record too many is not at the offset of the next", withCopies(handMade(unsure(op(1, 0, 1, send(0, 1, -1), send(0, 2, -1))), op(2, 2, 3, poll(at{0, 1, 0}, at{0, 2, 1}))),
			change(copyOf(1, 1), func(c *Copy) { c.Batches[0].Values, c.End, c.High = []int64{1, 2}, 2, 2 })), "dirty-read 1/0, gap 1/0, miscount 1/0"},
		{"a record that readers passed", withCopies(passed(), copyOf(1, 1, 2)), "gap 1/0"},
		{"one that a failed poll gave out", withCopies(groups(handMade(unsure(op(1, 0, 1, send(0, 1, -1))), op(1, 2, 3, send(0, 2, 1)), failed(op(3, 4, 5, poll(at{0, 1, 0}))), op(2, 4, 5, poll(at{0, 2, 1})))),
			copyOf(1, 1, 2)), "nothing"},
		{"one of a copy that does not know yet that it is committed", withCopies(passed(), change(copyOf(1, 1, 2), func(c *Copy) { c.High = 0 })), "nothing"},
		{"one before the start, in a batch that retention left", withCopies(passed(), change(copyOf(1), func(c *Copy) {
			c.Start, c.End, c.High, c.Batches = 1, 2, 2, []Batch{{Base: 0, Last: 1, Values: []int64{1, 2}}}
		})), "nothing"},
		{"an acknowledged record of which nobody was told where it is, and that no copy has", withCopies(handMade(op(1, 0, 1, send(0, 1, -1))), copyOf(1), copyOf(2)), "unseen 1/0, lost-on-node 2/0"},
		{"one that was told beyond the end of all copies", withCopies(handMade(op(1, 0, 1, send(0, 1, 3))), copyOf(1), copyOf(2)), "unseen 1/0, lost-on-node 2/0"},
		{"one of which a copy that is behind has the first of two", withCopies(handMade(repeated(op(1, 0, 1, send(0, 1, 1)))), copyOf(1, 1, 1), copyOf(2, 1)), "unseen 1/0"},
		{"one that a copy has elsewhere than readers saw it", withCopies(handMade(op(1, 0, 1, send(0, 1, -1)), op(2, 2, 3, poll(at{0, 1, 0}))), copyOf(1, 0, 1)), "dirty-read 1/0"},
		{"a high watermark beyond those of the copies, which lag", func() *History {
			h := three(change(copyOf(1, 1, -1, 2, 3), func(c *Copy) { c.High = 2 }))
			h.Watermarks = []Watermark{{Process: 1, High: 4}}
			return h
		}(), "nothing"},
	})
}

func TestAReportAddsUpItsTopics(t *testing.T) {
	r := Check(handMade(op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(2, 1, 0)), op(1, 4, 5, send(2, 2, 1))))
	if r.Acknowledged != 3 || r.Topics[0].Acknowledged != 1 || r.Topics[1].Acknowledged != 2 {
		t.Errorf("%d acknowledged in all, %d and %d of the topics", r.Acknowledged, r.Topics[0].Acknowledged, r.Topics[1].Acknowledged)
	}
}

type limitCase struct {
	name string
	h    *History
	want string
}

func judge(t *testing.T, cases []limitCase) {
	t.Helper()
	for _, c := range cases {
		if err := c.h.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if r := Check(c.h); brief(r) != c.want {
			t.Errorf("%s: %s, want %s\n%s", c.name, brief(r), c.want, said(r))
		}
	}
}
