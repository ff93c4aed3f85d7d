package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// lossy is a history of one topic whose second of three acknowledged records is lost.
func lossy(t Topic, faults []Fault, losses []Loss) *History {
	const s = int(time.Second)
	h := handMade(op(1, 300*s, 301*s, send(0, 1, 0)), op(1, 302*s, 303*s, send(0, 2, 1)), op(1, 304*s, 305*s, send(0, 3, 2)),
		op(3, 900*s, 901*s, poll(at{0, 1, 0}, at{0, 3, 2})))
	t.Name = "a"
	h.Header.Topics[0] = t
	h.Faults, h.Losses = faults, losses
	return h
}

func TestAcknowledgedRecordsMayBeLostOnlyAsTheSettingsSay(t *testing.T) {
	kill := func(from, to time.Duration) []Fault {
		return []Fault{{Name: "kill", Nodes: []int{1}, Start: from * time.Second, End: to * time.Second}}
	}
	near := kill(303, 310)
	flag := func(from, to int64, at time.Duration, media bool) []Loss {
		return []Loss{{Key: 0, From: from, To: to, At: at * time.Second, Media: media}}
	}
	isr := Topic{Replicas: 3, MinISR: 2, Rule: "isr", Durability: "memory"}
	with := func(acks, minAcks string) Topic { x := isr; x.Acks, x.MinAcks = acks, minAcks; return x }
	disk := with("all", "0")
	disk.Durability = "disk"
	five := with("2", "0")
	five.Replicas, five.MinISR = 5, 3
	strict := with("2", "0")
	strict.MinISR = 3
	lax := five
	lax.MinISR = 1
	for _, c := range []struct {
		name string
		h    *History
		rule string // by which it is allowed
	}{
		{"acks=all", lossy(with("all", "0"), near, nil), ""},
		{"acks=1", lossy(with("1", "0"), near, nil), "acks=1 may"},
		{"acks=0", lossy(with("0", "0"), near, nil), "acks=0 may"},
		{"acks=1 of a topic that asks for all", lossy(with("1", "all"), near, nil), ""},
		{"acks=1 of a topic that asks for a commit by count", lossy(with("1", "2"), near, nil), ""},
		{"acks=0 of a topic that asks for all: no answer comes", lossy(with("0", "all"), near, nil), "acks=0 may"},
		{"acks=2 of three is a commit", lossy(with("2", "0"), near, nil), ""},
		{"acks=2 of five is none", lossy(five, near, nil), "acks=2 may"},
		{"acks=2 of five, one of which must be in sync, is none", lossy(lax, near, nil), "acks=2 may"},
		{"acks=2 of three, all of which must be in sync, is none", lossy(strict, near, nil), "acks=2 may"},
		{"acks=1 without a fault", lossy(with("1", "0"), nil, nil), ""},
		{"acks=1 long after the fault", lossy(with("1", "0"), kill(100, 200), nil), ""},
		{"acks=1 soon after the fault", lossy(with("1", "0"), kill(100, 250), nil), "acks=1 may"},
		{"acks=1 long before the fault", lossy(with("1", "0"), kill(400, 420), nil), ""},
		{"acks=1 soon before the fault", lossy(with("1", "0"), kill(350, 420), nil), "acks=1 may"},
		{"acks=1 and a fault that was never healed", lossy(with("1", "0"), kill(100, 0), nil), "acks=1 may"},
		{"flagged", lossy(with("all", "0"), near, flag(1, 2, 310, false)), ruleFlagged},
		{"flagged elsewhere", lossy(with("all", "0"), near, flag(2, 9, 310, false)), ""},
		{"flagged up to there", lossy(with("all", "0"), near, flag(0, 1, 310, false)), ""},
		{"flagged before it was sent", lossy(with("all", "0"), near, flag(1, 2, 301, false)), ""},
		{"flagged though it was fsynced", lossy(disk, near, flag(1, 2, 310, false)), ""},
		{"flagged since disks were lost", lossy(disk, near, flag(1, 2, 310, true)), ruleFlagged},
	} {
		if err := c.h.Validate(); err != nil {
			t.Fatal(err)
		}
		r := Check(c.h)
		topic := r.Topics[0]
		if c.rule == "" {
			want := "lost-write: 1 in a/0, unseen: 1 in a/0, int-poll-skip: 1 in a/0"
			if r.Verdict != VerdictViolated || r.Exit != ExitLost || topic.Verdict != VerdictViolated || topic.Because != want || len(topic.Allowed) > 0 {
				t.Errorf("%s: %s %d, %+v", c.name, r.Verdict, r.Exit, topic)
			}
			continue
		}
		if r.Verdict != VerdictOK || r.Exit != ExitOK || topic.Verdict != VerdictAllowed || len(topic.Allowed) != 3 || !strings.Contains(topic.Because, c.rule) {
			t.Errorf("%s: %s %d, %+v", c.name, r.Verdict, r.Exit, topic)
		}
		for _, a := range topic.Allowed {
			if a.Count != 1 || !strings.HasPrefix(a.Rule, c.rule) {
				t.Errorf("%s: %+v", c.name, a)
			}
		}
		if r.Topics[1].Verdict != VerdictOK {
			t.Errorf("%s: the other topic is %+v", c.name, r.Topics[1])
		}
	}
}

func TestWhatNoAcksExcuse(t *testing.T) {
	kill := []Fault{{Name: "kill", Start: 0, End: 1}}
	for _, c := range []struct {
		name string
		h    *History
		exit int
	}{
		{"two polled values at one offset", handMade(op(1, 0, 1, send(2, 1, 0)), op(4, 2, 3, send(2, 2, 0)), op(2, 4, 5, poll(at{2, 1, 0})), op(3, 4, 5, poll(at{2, 2, 0}))), ExitLost},
		{"two polled values and one told at one offset", handMade(op(5, 0, 1, send(2, 3, 0)), op(1, 0, 1, send(2, 1, 0)), op(4, 2, 3, send(2, 2, 0)), op(2, 4, 5, poll(at{2, 1, 0})), op(3, 4, 5, poll(at{2, 2, 0}))), ExitLost},
		{"the offset of a copy that was lost, of two", func() *History {
			h := handMade(op(1, 0, 1, send(2, 1, 7)), op(2, 2, 3, poll(at{2, 1, 6})))
			h.Header.Topics[1].Repeats = true
			return h
		}(), ExitOK},
		{"the answer of a record whose place another took", handMade(op(1, 0, 1, send(2, 1, 0)), op(4, 2, 3, send(2, 2, 0)), op(3, 4, 5, poll(at{2, 2, 0}))), ExitOK},
		{"a failed one read", handMade(failed(op(1, 0, 1, send(2, 1, 0))), op(2, 4, 5, poll(at{2, 1, 0}))), ExitLost},
		{"a poll leaves out what was polled", handMade(op(1, 0, 1, send(2, 1, 0), send(2, 2, 1), send(2, 3, 2)),
			op(2, 4, 5, poll(at{2, 1, 0}, at{2, 3, 2})), op(3, 4, 5, poll(at{2, 2, 1}))), ExitOrder},
		{"records turned around", handMade(op(1, 0, 1, send(2, 1, 1)), op(1, 2, 3, send(2, 2, 0)), op(3, 4, 5, poll(at{2, 2, 0}, at{2, 1, 1}))), ExitOrder},
		{"a lost one and one after it", handMade(op(1, 0, 1, send(2, 1, 1)), op(1, 2, 3, send(2, 2, 0)), op(3, 4, 5, poll(at{2, 2, 0}))), ExitOK},
		{"the same with acks=0", func() *History {
			h := handMade(op(1, 0, 1, send(2, 1, -1)), op(1, 2, 3, send(2, 2, -1)), op(3, 4, 5, poll(at{2, 2, 0}, at{2, 1, 1})))
			h.Header.Topics[1].Acks = "0"
			return h
		}(), ExitOK},
		{"a polled one that the copies do not have", func() *History {
			h := handMade(op(1, 0, 1, send(2, 1, 0)), op(3, 4, 5, poll(at{2, 1, 0})))
			h.Copies = []Copy{{Key: 2, Node: 1, End: 1, High: 1, Batches: []Batch{{Control: true}}}}
			return h
		}(), ExitLost},
		{"a copy that lacks one", func() *History {
			h := handMade(op(1, 0, 1, send(2, 1, 0)))
			h.Copies = []Copy{{Key: 2, Node: 1, End: 1, High: 1, Batches: []Batch{{Control: true}}}}
			return h
		}(), ExitOK},
	} {
		c.h.Faults = kill
		if r := Check(c.h); r.Exit != c.exit {
			t.Errorf("%s:\n%s", c.name, said(r))
		}
	}
}

func TestAFlaggedLossExplainsWhatItDoesToReaders(t *testing.T) {
	h := handMade(op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 1)), op(4, 20, 21, send(0, 3, 1)),
		op(2, 4, 5, poll(at{0, 1, 0}, at{0, 2, 1})), op(2, 24, 25, poll(at{0, 3, 1})))
	if r := Check(h); r.Exit != ExitLost {
		t.Errorf("unflagged:\n%s", said(r))
	}
	h.Losses = []Loss{{Key: 0, From: 1, To: 2, At: 10}}
	if r := Check(h); r.Exit != ExitOK || r.Topics[0].Verdict != VerdictAllowed {
		t.Errorf("flagged:\n%s", said(r))
	}
}

func TestAFlaggedLossExplainsSendsTurnedAround(t *testing.T) {
	h := handMade(op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 2)), op(1, 20, 21, send(0, 3, 1)), op(2, 24, 25, poll(at{0, 1, 0}, at{0, 3, 1})))
	h.Losses = []Loss{{Key: 0, From: 1, To: 9, At: 10}}
	if r := Check(h); r.Exit != ExitOK || kindsOf(r)[NonmonotonicSend] != 1 {
		t.Error(said(r))
	}
}

func TestAFlaggedLossExplainsWhatTookItsPlace(t *testing.T) {
	h := handMade(op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 1)), op(4, 20, 21, send(0, 3, 1)), op(2, 24, 25, poll(at{0, 1, 0}, at{0, 3, 1})))
	h.Losses = []Loss{{Key: 0, From: 1, To: 2, At: 10}}
	if r := Check(h); r.Exit != ExitOK {
		t.Error(said(r))
	}
	h.Losses[0].At = 1
	if r := Check(h); r.Exit != ExitLost {
		t.Errorf("sent after it was told:\n%s", said(r))
	}
}

func TestAcksZeroMayGoWithItsClient(t *testing.T) {
	h := handMade(op(1, 0, 1, send(0, 1, -1)), unsure(keysOp(Crash, 2, 2, 3)))
	h.Header.Topics[0].Acks = "0"
	if r := Check(h); r.Exit != ExitLost {
		t.Errorf("another client crashed:\n%s", said(r))
	}
	h.Ops[1].Process = 1
	if r := Check(h); r.Exit != ExitOK || r.Topics[0].Allowed[0].Rule != ruleUnanswered {
		t.Errorf("its client crashed:\n%s", said(r))
	}
}

func TestTheExamplesAreBoundedAndThoseNotAllowedComeFirst(t *testing.T) {
	const minute = int(time.Minute)
	var ops []Op
	for i := range 40 { // the later ones long after the fault
		ops = append(ops, op(1, i*minute, i*minute+1, send(2, int64(i+1), int64(i))))
	}
	h := handMade(ops...)
	h.Faults = []Fault{{Name: "kill", Start: 0, End: 35 * time.Minute}}
	r := Check(h)
	a := r.Anomalies[0]
	if a.Kind != Unseen || a.Count != 40 || a.Allowed != 37 || len(a.Examples) != 10 || a.Examples[2].Allowed != "" || a.Examples[3].Allowed == "" {
		t.Errorf("%+v", a)
	}
	if r.Exit != ExitLost || r.Topics[1].Allowed[0].Count != 37 || r.Topics[1].Because != "unseen: 3 in b/0" {
		t.Errorf("%+v", r.Topics[1])
	}
}

func TestTheReportHasStableNames(t *testing.T) {
	h := lossy(Topic{Replicas: 3, MinISR: 2, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "all"}, nil, nil)
	h.Header.Topics, h.Header.Keys = h.Header.Topics[:1], h.Header.Keys[:1]
	h.Ops = h.Ops[:2]
	b, err := json.Marshal(Check(h))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"verdict":"violated","exit":20,"operations":2,"acknowledged":2,"anomalies":[` +
		`{"kind":"unseen","topic":0,"key":0,"count":2,"allowed":0,"examples":[` +
		`{"ops":[0],"offsets":[0],"values":[1],"text":"operation 0 (process 1) was told that value 1 of a/0 is written at offset 0, but nobody ever read it"},` +
		`{"ops":[1],"offsets":[1],"values":[2],"text":"operation 1 (process 1) was told that value 2 of a/0 is written at offset 1, but nobody ever read it"}]}],` +
		`"topics":[{"name":"a","replicas":3,"minISR":2,"rule":"isr","durability":"memory","minAcks":"0","acks":"all",` +
		`"acknowledged":2,"verdict":"violated","allowed":[],"because":"unseen: 2 in a/0"}]}`
	if string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
	if b, _ := json.Marshal(Check(&History{})); fmt.Sprint(string(b)) != `{"verdict":"ok","exit":0,"operations":0,"acknowledged":0,"anomalies":[],"topics":[]}` {
		t.Errorf("%s", b)
	}
}
