package history

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Histories by hand. Topic a has two keys (0 and 1), acks=all; b has one (2), acks=1.

func handMade(ops ...Op) *History {
	all := Topic{Name: "a", Replicas: 3, MinISR: 2, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "all"}
	one := all
	one.Name, one.Acks = "b", "1"
	return &History{
		Header: Header{Version: Version, Nodes: 3, Topics: []Topic{all, one}, Keys: []Key{{0, 0}, {0, 1}, {1, 0}}, Transactions: true},
		Ops:    ops,
	}
}

// op is an ok operation of a process.
func op(process, from, to int, mops ...Mop) Op {
	o := Op{Process: process, Type: OK, F: Txn, Start: time.Duration(from), End: time.Duration(to), Mops: mops}
	if len(mops) == 1 {
		o.F = Poll
		if mops[0].Send != nil {
			o.F = Send
		}
	}
	return o
}

func failed(o Op) Op { o.Type = Fail; return o }
func unsure(o Op) Op { o.Type = Info; return o }

func keysOp(f F, process, from, to int, keys ...int) Op {
	return Op{Process: process, Type: OK, F: f, Start: time.Duration(from), End: time.Duration(to), Keys: keys}
}

// send and poll take key, value, offset.
func send(k int, v, o int64) Mop { return Mop{Send: &Sent{k, v, o}} }

func poll(list ...[3]int64) Mop {
	m := Mop{}
	for _, s := range list {
		m.Poll = append(m.Poll, Seen{int(s[0]), s[1], s[2]})
	}
	return m
}

type at = [3]int64

// said is a report in lines: of each anomaly its kind, key, count, how many of them were allowed, and its first sentence.
func said(r Report) string {
	var b strings.Builder
	for _, a := range r.Anomalies {
		fmt.Fprintf(&b, "%s %d %d/%d", a.Kind, a.Key, a.Count, a.Allowed)
		if a.Split != nil {
			fmt.Fprintf(&b, " %+v", *a.Split)
		}
		fmt.Fprintf(&b, ": %v %s\n", a.Examples[0].Ops, a.Examples[0].Text)
	}
	fmt.Fprintf(&b, "%s %d", r.Verdict, r.Exit)
	return b.String()
}

func TestEachAnomalyIsReportedByItsMeaning(t *testing.T) {
	cases := []struct {
		name string
		h    *History
		ww   bool
		want string
	}{
		{"nothing", handMade(op(1, 0, 1, send(0, 1, 0)), op(1, 1, 2, send(0, 2, 3)), op(2, 3, 4, poll(at{0, 1, 0}, at{0, 2, 3}))), true, "ok 0"},
		{"nothing at all", handMade(), true, "ok 0"},

		{"two values polled at one offset", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(4, 2, 3, send(0, 2, -1)), op(2, 4, 5, poll(at{0, 1, 0})), op(3, 4, 5, poll(at{0, 2, 0}))), false,
			"inconsistent-offsets 0 1/0: [2 3] offset 0 of a/0 has several values: operation 2 (process 2) polled value 1, operation 3 (process 3) polled value 2\nviolated 20"},
		{"polled by one that failed, and told", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(4, 2, 3, send(0, 2, -1)), op(2, 4, 5, poll(at{0, 1, 0})), op(2, 6, 7, poll(at{0, 2, 1})), failed(op(3, 8, 9, poll(at{0, 2, 0})))), false,
			"inconsistent-offsets 0 1/0: [2 4] offset 0 of a/0 has several values: operation 2 (process 2) polled value 1, operation 4 (process 3) polled value 2\n" +
				"duplicate 0 1/0: [4 3] value 2 of a/0 is at offset 0 (operation 4 (process 3)) and again at offset 1 (operation 3 (process 2))\nviolated 20"},
		{"two were told the same offset", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 0)), op(2, 4, 5, poll(at{0, 2, 0}))), false,
			"lost-write 0 1/0: [0 2] operation 0 (process 1) was told that value 1 of a/0 is at offset 0; nobody ever read it, though operation 2 (process 2) read value 2 at offset 0\n" +
				"unseen 0 1/0: [0] operation 0 (process 1) was told that value 1 of a/0 is written at offset 0, but nobody ever read it\n" +
				"inconsistent-offsets 0 1/0: [0 2] offset 0 of a/0 has several values: operation 0 (process 1) was told it is value 1, operation 2 (process 2) polled value 2\n" +
				"nonmonotonic-send 0 1/0: [0 1] operation 0 (process 1) sent value 1 of a/0, which is at offset 0, and then, in operation 1, value 2, which is at offset 0\nviolated 20"},
		{"a value at two offsets", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(2, 2, 3, poll(at{0, 1, 0}, at{0, 1, 1}))), false,
			"duplicate 0 1/0: [1 1] value 1 of a/0 is at offset 0 (operation 1 (process 2)) and again at offset 1 (operation 1 (process 2))\nviolated 21"},
		{"the same with acks=1", handMade(
			op(1, 0, 1, send(2, 1, 0)), op(2, 2, 3, poll(at{2, 1, 0}, at{2, 1, 1}))), false,
			"duplicate 2 1/0: [1 1] value 1 of b/0 is at offset 0 (operation 1 (process 2)) and again at offset 1 (operation 1 (process 2))\nviolated 21"},
		{"the same of a producer that wrote it again", handMade(
			Op{Process: 1, Type: OK, F: Send, Start: 0, End: 1, Mops: []Mop{send(2, 1, 0)}, Repeats: true}, op(2, 2, 3, poll(at{2, 1, 0}, at{2, 1, 1}))), false,
			"duplicate 2 1/1: [1 1] value 1 of b/0 is at offset 0 (operation 1 (process 2)) and again at offset 1 (operation 1 (process 2))\nok 0"},

		{"an acknowledged value is missing in the middle", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 1)), op(1, 4, 5, send(0, 3, 2)), op(2, 6, 7, poll(at{0, 1, 0})), op(3, 6, 7, poll(at{0, 3, 2}))), false,
			"lost-write 0 1/0: [1 4] operation 1 (process 1) was told that value 2 of a/0 is at offset 1; nobody ever read it, though operation 4 (process 3) read value 3 at offset 2\n" +
				"unseen 0 1/0: [1] operation 1 (process 1) was told that value 2 of a/0 is written at offset 1, but nobody ever read it\nviolated 20"},
		{"only one that failed polled it", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 1)), failed(op(2, 4, 5, poll(at{0, 1, 0}))), op(3, 6, 7, poll(at{0, 2, 1}))), false,
			"lost-write 0 1/0: [0 3] operation 0 (process 1) was told that value 1 of a/0 is at offset 0; nobody ever read it, though operation 3 (process 3) read value 2 at offset 1\n" +
				"unseen 0 1/0: [0] operation 0 (process 1) was told that value 1 of a/0 is written at offset 0, but nobody ever read it\nviolated 20"},
		{"only one that failed polled what is behind it", handMade(
			op(1, 0, 1, send(0, 1, 0)), unsure(op(4, 2, 3, send(0, 2, -1))), failed(op(2, 4, 5, poll(at{0, 2, 1})))), false,
			"unseen 0 1/0: [0] operation 0 (process 1) was told that value 1 of a/0 is written at offset 0, but nobody ever read it\nviolated 20"},
		{"half of a transaction that must have been committed", handMade(
			unsure(op(1, 0, 1, send(0, 1, 0), send(0, 2, 1))), op(2, 6, 7, poll(at{0, 2, 1}))), false,
			"lost-write 0 1/0: [0 1] operation 0 (process 1) took effect, as other values of it show, so that value 1 of a/0 is at offset 0; nobody ever read it, though operation 1 (process 2) read value 2 at offset 1\nviolated 20"},
		{"a transaction that perhaps was not committed", handMade(
			unsure(op(1, 0, 1, send(0, 1, 0), send(0, 2, 1))), op(1, 2, 3, send(0, 3, 2)), op(2, 6, 7, poll(at{0, 3, 2}))), false, "ok 0"},
		{"an acknowledged value is missing at the end", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(1, 2, 3, send(0, 2, 1)), op(2, 4, 5, poll(at{0, 1, 0}))), false,
			"unseen 0 1/0: [1] operation 1 (process 1) was told that value 2 of a/0 is written at offset 1, but nobody ever read it\nviolated 20"},
		{"one that nobody acknowledged", handMade(unsure(op(1, 0, 1, send(0, 1, -1)))), false, "ok 0"},

		{"a value of a failed one is read", handMade(failed(op(1, 0, 1, send(0, 1, -1))), op(2, 2, 3, poll(at{0, 1, 0}))), false,
			"G1a 0 1/0: [0 1] operation 0 (process 1) failed to send value 1 of a/0, but operation 1 (process 2) read it at offset 0\nviolated 20"},
		{"a value of a failed one is polled by another failed one", handMade(failed(op(1, 0, 1, send(0, 1, -1))), failed(op(2, 2, 3, poll(at{0, 1, 0})))), false, "ok 0"},
		{"a transaction polls what it sends", handMade(op(1, 0, 1, send(0, 1, 0), poll(at{0, 1, 0}))), false,
			"precommitted-read 0 1/0: [0] operation 0 (process 1) polled value 1 of a/0 at offset 0, which it sends itself and had not committed\nviolated 20"},

		{"a poll leaves one out", handMade(
			op(1, 0, 1, send(0, 1, 0), send(0, 2, 5), send(0, 3, 9)), op(2, 2, 3, poll(at{0, 1, 0}, at{0, 2, 5}, at{0, 3, 9})), op(3, 2, 3, poll(at{0, 1, 0}, at{0, 3, 9}))), false,
			"int-poll-skip 0 1/0: [2] operation 2 (process 3) polled offset 9 of a/0 right after offset 0; 1 known records are between, from offset 5\nviolated 21"},
		{"a poll goes back", handMade(
			op(1, 0, 1, send(0, 1, 0), send(0, 2, 5)), op(3, 2, 3, poll(at{0, 1, 0}, at{0, 2, 5}, at{0, 1, 0}))), false,
			"int-nonmonotonic-poll 0 1/0: [1] operation 1 (process 3) polled offset 0 of a/0 right after offset 5\nviolated 21"},
		{"a poll stands still", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(3, 2, 3, poll(at{0, 1, 0}), poll(at{0, 1, 0}))), false,
			"int-nonmonotonic-poll 0 1/0: [1] operation 1 (process 3) polled offset 0 of a/0 right after offset 0\nviolated 21"},
		{"a poll whose key moved", handMade(
			op(1, 0, 1, send(0, 1, 0), send(0, 2, 5)), Op{Process: 3, Type: OK, F: Poll, Start: 2, End: 3, Moved: []int{0}, Mops: []Mop{poll(at{0, 1, 0}, at{0, 2, 5}, at{0, 1, 0})}}), false, "ok 0"},
		{"the next poll leaves one out", handMade(
			op(1, 0, 1, send(0, 1, 0), send(0, 2, 1), send(0, 3, 2)), op(3, 2, 3, poll(at{0, 1, 0})), op(3, 4, 5, poll(at{0, 3, 2})), op(2, 4, 5, poll(at{0, 2, 1}))), false,
			"poll-skip 0 1/0: [1 2] operation 2 (process 3) polled offset 2 of a/0 next after offset 0 in operation 1; 1 known records are between, from offset 1\nviolated 21"},
		{"the next poll stands still", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(3, 2, 3, poll(at{0, 1, 0})), op(3, 4, 5, poll(at{0, 1, 0}))), false,
			"nonmonotonic-poll 0 1/0: [1 2] operation 2 (process 3) polled offset 0 of a/0 next after offset 0 in operation 1\nviolated 21"},
		{"after one that failed it is polled again", handMade(
			op(1, 0, 1, send(0, 1, 0)), failed(op(3, 2, 3, poll(at{0, 1, 0}))), op(3, 4, 5, poll(at{0, 1, 0}))), false, "ok 0"},
		{"one that failed polled it again", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(3, 2, 3, poll(at{0, 1, 0})), failed(op(3, 4, 5, poll(at{0, 1, 0})))), false, "ok 0"},
		{"within one operation a subscription does not matter", handMade(
			op(1, 0, 1, send(0, 1, 0)), keysOp(Subscribe, 3, 1, 2, 0), op(3, 2, 3, poll(at{0, 1, 0}, at{0, 1, 0}))), false,
			"int-nonmonotonic-poll 0 1/0: [2] operation 2 (process 3) polled offset 0 of a/0 right after offset 0\nviolated 21"},
		{"after an assignment of other keys it is polled again", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(3, 2, 3, poll(at{0, 1, 0})), keysOp(Assign, 3, 3, 4, 1), keysOp(Assign, 3, 4, 5, 0, 1), op(3, 6, 7, poll(at{0, 1, 0}))), false, "ok 0"},
		{"after an assignment with the same key it is not", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(3, 2, 3, poll(at{0, 1, 0})), keysOp(Assign, 3, 3, 4, 1, 0), op(3, 6, 7, poll(at{0, 1, 0}))), false,
			"nonmonotonic-poll 0 1/0: [1 3] operation 3 (process 3) polled offset 0 of a/0 next after offset 0 in operation 1\nviolated 21"},
		{"after a subscription that nothing moved it is not polled again either", handMade(
			op(1, 0, 1, send(0, 1, 0)), keysOp(Subscribe, 3, 1, 2, 0), op(3, 2, 3, poll(at{0, 1, 0})), op(3, 6, 7, poll(at{0, 1, 0}))), false,
			"nonmonotonic-poll 0 1/0: [2 3] operation 3 (process 3) polled offset 0 of a/0 next after offset 0 in operation 2\nviolated 21"},
		{"after a crash it is polled again", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(3, 2, 3, poll(at{0, 1, 0})), unsure(keysOp(Crash, 3, 3, 4)), op(3, 6, 7, poll(at{0, 1, 0}))), false, "ok 0"},

		{"another's record between two of one operation", handMade(
			op(1, 0, 9, send(0, 1, 0), send(0, 3, 2)), op(2, 0, 9, send(0, 2, 1)), op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}, at{0, 3, 2}))), false,
			"int-send-skip 0 1/1: [0] operation 0 (process 1) sent value 1 of a/0, which is at offset 0, and then, in the same operation, value 3, which is at offset 2\nok 0"},
		{"two of one operation turned around", handMade(
			op(1, 0, 9, send(0, 1, 1), send(0, 2, 0)), op(3, 10, 11, poll(at{0, 2, 0}, at{0, 1, 1}))), false,
			"int-nonmonotonic-send 0 1/0: [0] operation 0 (process 1) sent value 1 of a/0, which is at offset 1, and then, in the same operation, value 2, which is at offset 0\nviolated 21"},
		{"two of one process turned around", handMade(
			op(1, 0, 4, send(0, 1, 1)), op(1, 5, 9, send(0, 2, 0)), op(3, 10, 11, poll(at{0, 2, 0}, at{0, 1, 1}))), false,
			"nonmonotonic-send 0 1/0: [0 1] operation 0 (process 1) sent value 1 of a/0, which is at offset 1, and then, in operation 1, value 2, which is at offset 0\nviolated 21"},

		{"two turned around, the second of which perhaps", handMade(
			op(1, 0, 4, send(0, 1, 1)), unsure(op(1, 5, 9, send(0, 2, -1))), op(3, 10, 11, poll(at{0, 2, 0}, at{0, 1, 1}))), false,
			"nonmonotonic-send 0 1/0: [0 1] operation 0 (process 1) sent value 1 of a/0, which is at offset 1, and then, in operation 1, value 2, which is at offset 0\nviolated 21"},
		{"two turned around, the first of which perhaps, so that it may have come late", handMade(
			unsure(op(1, 0, 4, send(0, 1, -1))), op(1, 5, 9, send(0, 2, 0)), op(3, 10, 11, poll(at{0, 2, 0}, at{0, 1, 1}))), false, "ok 0"},
		{"two turned around of two clients", handMade(
			op(1, 0, 4, send(0, 1, 1)), unsure(keysOp(Crash, 1, 4, 5)), op(1, 5, 9, send(0, 2, 0)), op(3, 10, 11, poll(at{0, 2, 0}, at{0, 1, 1}))), false, "ok 0"},

		{"writes of two transactions cross", handMade(
			op(1, 0, 9, send(0, 1, 0), send(1, 2, 1)), op(2, 0, 9, send(0, 2, 1), send(1, 1, 0)),
			op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}, at{1, 1, 0}, at{1, 2, 1}))), true,
			"G0 0 1/1: [0 1] operation 0 (process 1) sent value 1 of a/0, after which comes value 2 of operation 1 (process 2); operation 1 (process 2) sent value 1 of a/1, after which comes value 2 of operation 0 (process 1)\nok 0"},
		{"the same without the order of writes", handMade(
			op(1, 0, 9, send(0, 1, 0), send(1, 2, 1)), op(2, 0, 9, send(0, 2, 1), send(1, 1, 0)),
			op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}, at{1, 1, 0}, at{1, 2, 1}))), false, "ok 0"},
		{"writes cross with one process", handMade(
			op(1, 0, 4, send(0, 2, 1)), op(1, 5, 9, send(1, 1, 0)), op(2, 0, 9, send(0, 1, 0), send(1, 2, 1)),
			op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}, at{1, 1, 0}, at{1, 2, 1}))), true,
			"G0-process 1 1/1: [0 1 2] operation 0 (process 1) did it before operation 1; operation 1 (process 1) sent value 1 of a/1, after which comes value 2 of operation 2 (process 2); operation 2 (process 2) sent value 1 of a/0, after which comes value 2 of operation 0 (process 1)\nok 0"},
		{"the same, but one of them perhaps came late", handMade(
			unsure(op(1, 0, 4, send(0, 2, -1))), op(1, 5, 9, send(1, 1, 0)), op(2, 0, 9, send(0, 1, 0), send(1, 2, 1)),
			op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}, at{1, 1, 0}, at{1, 2, 1}))), true, "ok 0"},
		{"writes cross in real time", handMade(
			op(1, 0, 4, send(0, 2, 1)), op(4, 5, 9, send(1, 1, 0)), op(2, 0, 9, send(0, 1, 0), send(1, 2, 1)),
			op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}, at{1, 1, 0}, at{1, 2, 1}))), true,
			"G0-realtime 1 1/1: [0 1 2] operation 0 (process 1) ended 1ns before operation 1 (process 4) began; operation 1 (process 4) sent value 1 of a/1, after which comes value 2 of operation 2 (process 2); operation 2 (process 2) sent value 1 of a/0, after which comes value 2 of operation 0 (process 1)\nok 0"},
		{"two transactions polled each other's", handMade(
			op(1, 0, 9, send(0, 1, 0), poll(at{1, 1, 0})), op(2, 0, 9, send(1, 1, 0), poll(at{0, 1, 0}))), false,
			"G1c 0 1/0: [0 1] operation 0 (process 1) sent value 1 of a/0, which operation 1 (process 2) polled; operation 1 (process 2) sent value 1 of a/1, which operation 0 (process 1) polled\nviolated 21"},
		{"a poll and the order of writes cross", handMade(
			op(1, 0, 9, send(0, 1, 0), poll(at{1, 1, 0})), op(2, 0, 9, send(1, 1, 0), send(0, 2, 1)), op(3, 10, 11, poll(at{0, 1, 0}, at{0, 2, 1}))), true,
			"G1c 0 1/1: [0 1] operation 0 (process 1) sent value 1 of a/0, after which comes value 2 of operation 1 (process 2); operation 1 (process 2) sent value 1 of a/1, which operation 0 (process 1) polled\nok 0"},
		{"polls cross with one process", handMade(
			op(1, 0, 4, poll(at{0, 1, 0})), op(1, 5, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0))), false,
			"G1c-process 1 1/0: [0 1 2] operation 0 (process 1) did it before operation 1; operation 1 (process 1) sent value 1 of a/1, which operation 2 (process 2) polled; operation 2 (process 2) sent value 1 of a/0, which operation 0 (process 1) polled\nviolated 21"},
		{"the same behind another that polled the same", handMade(
			op(7, 0, 3, poll(at{0, 1, 0})), op(1, 0, 4, poll(at{0, 1, 0})), op(1, 5, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0))), false,
			"G1c-process 1 1/0: [1 2 3] operation 1 (process 1) did it before operation 2; operation 2 (process 1) sent value 1 of a/1, which operation 3 (process 2) polled; operation 3 (process 2) sent value 1 of a/0, which operation 1 (process 1) polled\nviolated 21"},
		{"the same, but its first failed", handMade(
			failed(op(1, 0, 4, poll(at{0, 1, 0}))), op(1, 5, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0)), op(6, 10, 11, poll(at{0, 1, 0}))), false, "ok 0"},
		{"the same, but at one time", handMade(
			op(1, 0, 6, poll(at{0, 1, 0})), op(1, 5, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0))), false, "ok 0"},
		{"two polled each other's, but one failed", handMade(
			failed(op(1, 0, 9, send(0, 1, 0), poll(at{1, 1, 0}))), op(2, 0, 9, send(1, 1, 0), poll(at{0, 1, 0})), op(3, 10, 11, poll(at{1, 1, 0}))), false,
			"G1a 0 1/0: [0 1] operation 0 (process 1) failed to send value 1 of a/0, but operation 1 (process 2) read it at offset 0\nviolated 20"},
		{"polls cross with one process that had two clients", handMade(
			op(1, 0, 3, poll(at{0, 1, 0})), unsure(keysOp(Crash, 1, 3, 4)), op(1, 5, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0))), false,
			"G1c-realtime 1 1/0: [0 2 3] operation 0 (process 1) ended 2ns before operation 2 (process 1) began; operation 2 (process 1) sent value 1 of a/1, which operation 3 (process 2) polled; operation 3 (process 2) sent value 1 of a/0, which operation 0 (process 1) polled\nviolated 21"},
		{"polls cross in real time, with other ends between", handMade(
			op(1, 0, 4, poll(at{0, 1, 0})), op(5, 0, 5, poll()), op(6, 0, 6, poll()), op(4, 7, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0))), false,
			"G1c-realtime 1 1/0: [0 3 4] operation 0 (process 1) ended 3ns before operation 3 (process 4) began; operation 3 (process 4) sent value 1 of a/1, which operation 4 (process 2) polled; operation 4 (process 2) sent value 1 of a/0, which operation 0 (process 1) polled\nviolated 21"},
		{"polls cross in real time", handMade(
			op(1, 0, 4, poll(at{0, 1, 0})), op(4, 5, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0))), false,
			"G1c-realtime 1 1/0: [0 1 2] operation 0 (process 1) ended 1ns before operation 1 (process 4) began; operation 1 (process 4) sent value 1 of a/1, which operation 2 (process 2) polled; operation 2 (process 2) sent value 1 of a/0, which operation 0 (process 1) polled\nviolated 21"},
		{"none where it began just then", handMade(
			op(1, 0, 5, poll(at{0, 1, 0})), op(4, 5, 9, send(1, 1, 0)), op(2, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0))), false, "ok 0"},

		{"an offset that was told is not where it is", handMade(
			op(1, 0, 1, send(0, 1, 7)), op(2, 2, 3, poll(at{0, 1, 6}))), false,
			"ack-offset 0 1/0: [0 1] operation 0 (process 1) was told that value 1 of a/0 is at offset 7, but operation 1 (process 2) polled it at offset 6\n" +
				"duplicate 0 1/0: [1 0] value 1 of a/0 is at offset 6 (operation 1 (process 2)) and again at offset 7 (operation 0 (process 1))\nviolated 20"},
		{"a value from nowhere", handMade(op(2, 2, 3, poll(at{0, 9, 6}))), false,
			"phantom 0 1/0: [0] operation 0 (process 2) polled value 9 of a/0 at offset 6, which nobody sent\nviolated 20"},
		{"another one's records", handMade(op(2, 2, 3, poll(at{0, 0, 6}, at{0, 0, 7}))), false, "ok 0"},
		{"a value that was sent twice", handMade(
			op(1, 0, 1, send(0, 1, 0)), op(2, 0, 2, send(0, 1, 5)), op(2, 3, 4, poll(at{0, 1, 0}))), false,
			"sent-twice 0 1/0: [0 1] the harness sent value 1 of a/0 twice, by operation 0 (process 1) and by operation 1 (process 2)\nviolated 21"},
	}
	for _, c := range cases {
		if err := c.h.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := said(Options{WW: c.ww}.Check(c.h)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestGroupsThatAreNoTransactionsMaySeeTheirOwn(t *testing.T) {
	own := handMade(op(1, 0, 9, send(0, 1, 0), poll(at{0, 1, 0})))
	cross := handMade(op(1, 0, 9, send(0, 1, 0), poll(at{1, 1, 0})), op(2, 0, 9, send(1, 1, 0), poll(at{0, 1, 0})))
	impossible := handMade(op(1, 0, 9, poll(at{1, 1, 0}), send(0, 1, 0)), op(2, 0, 9, poll(at{0, 1, 0}), send(1, 1, 0)))
	half := handMade(unsure(op(1, 0, 1, send(0, 1, 0), send(0, 2, -1))), op(2, 6, 7, poll(at{0, 1, 0})))
	told := handMade(unsure(op(1, 0, 1, send(0, 1, 0), send(0, 2, -1))))
	for _, c := range []struct {
		h    *History
		want string
	}{
		{own, "ok 0"}, {cross, "ok 0"}, {half, "ok 0"},
		{impossible, "G1c-process 0 1/0: [0 0 1 1] operation 0 (process 1) did it before what follows; operation 0 (process 1) sent value 1 of a/0, which operation 1 (process 2) polled; operation 1 (process 2) did it before what follows; operation 1 (process 2) sent value 1 of a/1, which operation 0 (process 1) polled\nviolated 21"},
		{told, "unseen 0 1/0: [0] operation 0 (process 1) was told that value 1 of a/0 is written at offset 0, but nobody ever read it\nviolated 20"},
	} {
		c.h.Header.Transactions = false
		if got := said(Check(c.h)); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}
