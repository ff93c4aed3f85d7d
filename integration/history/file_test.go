package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// oneOfEach has one line of each kind.
func oneOfEach() *History {
	return &History{
		Header: Header{
			Version: Version, Began: time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC), Seed: 7, Nodes: 3, Flags: []string{"--seed", "7"},
			Topics:       []Topic{{Name: "a", Replicas: 3, MinISR: 2, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "all", Repeats: true}},
			Keys:         []Key{{0, 0}, {0, 1}},
			Transactions: true,
		},
		Ops: []Op{
			{Process: 1, Type: OK, F: Assign, Start: 1, End: 2, Keys: []int{0, 1}},
			{Process: 1, Type: Info, F: Txn, Start: 3, End: 9, Moved: []int{1}, Final: true, Error: "gone <away>", Node: 2, Repeats: true, Mops: []Mop{
				{Send: &Sent{Key: 1, Value: 5, Offset: -1}}, {Poll: []Seen{{1, 4, 3}, {0, 1, 2}}}, {},
			}},
		},
		Faults:     []Fault{{Name: "kill", Nodes: []int{1, 2}, What: "killed 1 and 2", Start: 1, End: 5, Failed: "no"}},
		Losses:     []Loss{{Key: 1, From: 3, To: 8, At: 4, Media: true}},
		Watermarks: []Watermark{{Process: 1, Key: 1, High: 4, Epoch: 2, Node: 1, At: 6}},
		Copies:     []Copy{{Key: 1, Node: 3, Start: 1, End: 5, High: 4, Batches: []Batch{{Base: 1, Last: 2, Epoch: 1, CRC: 99, Values: []int64{4, 0}}, {3, 3, 1, true, 7, nil}}}},
	}
}

func text(t *testing.T, h *History) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, h); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	want := oneOfEach()
	got, err := Read(strings.NewReader(text(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
}

func TestAHistoryCutAnywhereIsRefused(t *testing.T) {
	whole := text(t, oneOfEach())
	for n := range len(whole) - 1 { // without its last line feed it is whole
		if _, err := Read(strings.NewReader(whole[:n])); !errors.Is(err, ErrCut) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func TestAHistoryWithALineGoneIsRefused(t *testing.T) {
	lines := strings.SplitAfter(text(t, oneOfEach()), "\n")
	for i := 1; i < len(lines)-2; i++ {
		if _, err := Read(strings.NewReader(strings.Join(lines[:i], "") + strings.Join(lines[i+1:], ""))); !errors.Is(err, ErrCut) {
			t.Errorf("without line %d: %v", i+1, err)
		}
	}
}

func TestANewerHistoryIsRefused(t *testing.T) {
	s := strings.Replace(text(t, oneOfEach()), `"version":1`, `"version":2`, 1)
	if _, err := Read(strings.NewReader(s)); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
}

func TestARefusedHistoryNamesTheLine(t *testing.T) {
	good := text(t, oneOfEach())
	lines := strings.SplitAfter(good, "\n")
	for _, c := range []struct{ name, old, new, want string }{
		{"no JSON", lines[2], "{]\n", "line 3: "},
		{"an unknown kind", lines[2], `{"oops":{}}` + "\n", "line 3: 0 kinds"},
		{"two kinds in one", `{"fault":`, `{"loss":{"k":0,"from":0,"to":1,"at":1},"fault":`, "line 4: 2 kinds"},
		{"no header", lines[0], "", "line 1: the header"},
		{"two headers", lines[1], lines[0], "line 2: the header"},
		{"only an end", strings.Join(lines[:len(lines)-2], ""), "", "line 1: there is no header"},
		{"something after the end", lines[len(lines)-2], lines[len(lines)-2] + lines[1], "line 9: "},
		{"no such key", `"k":1,"v":5`, `"k":2,"v":5`, "line 3: no key 2"},
		{"no such key polled", `"k":1,"v":4`, `"k":-1,"v":4`, "line 3: no key -1"},
		{"no such key assigned", `"keys":[0,1]`, `"keys":[0,7]`, "line 2: no key 7"},
		{"no such topic", `"topic":0`, `"topic":1`, "line 1: key 0"},
		{"no such type", `"type":"ok"`, `"type":"good"`, `line 2: no type "good"`},
		{"no such operation", `"f":"assign"`, `"f":"shout"`, `line 2: no operation "shout"`},
		{"ended before it began", `"start":3,"end":9`, `"start":9,"end":3`, "line 3: "},
		{"send and poll in one", `"o":-1}`, `"o":-1},"poll":[{"k":1,"v":4,"o":3}]`, "line 3: a send and a poll"},
		{"value 0 sent", `"v":5`, `"v":0`, "line 3: sent value 0"},
		{"negative offset polled", `"v":4,"o":3`, `"v":4,"o":-3`, "line 3: polled"},
		{"no such rule", `"rule":"isr"`, `"rule":"luck"`, `line 1: topic "a": no commit rule "luck"`},
		{"no such durability", `"durability":"memory"`, `"durability":""`, "line 1: "},
		{"no such acks", `"acks":"all"`, `"acks":"some"`, `line 1: topic "a": no acks "some"`},
		{"no replicas", `"replicas":3`, `"replicas":0`, "line 1: "},
		{"loss backwards", `"from":3,"to":8`, `"from":8,"to":3`, "line 5: "},
		{"negative watermark", `"high":4,"epoch":2`, `"high":-4,"epoch":2`, "line 6: "},
		{"copy backwards", `"start":1,"end":5,"high"`, `"start":5,"end":1,"high"`, "line 7: "},
		{"batch backwards", `"o":1,"l":2`, `"o":2,"l":1`, "line 7: "},
		{"fault before all", `"start":1,"end":5,"failed"`, `"start":-1,"end":5,"failed"`, "line 4: "},
	} {
		bad := strings.Replace(good, c.old, c.new, 1)
		if bad == good {
			t.Fatalf("%s: nothing was changed", c.name)
		}
		if _, err := Read(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestLinesAreBounded(t *testing.T) {
	long := `{"fault":{"name":"` + strings.Repeat("x", MaxLine) + `"}}`
	head, _, _ := strings.Cut(text(t, oneOfEach()), "\n")
	if _, err := Read(strings.NewReader(head + "\n" + long)); !errors.Is(err, ErrLineTooLong) {
		t.Error("read:", err)
	}
	h := oneOfEach()
	h.Faults[0].What = long
	if err := Write(&bytes.Buffer{}, h); !errors.Is(err, ErrLineTooLong) {
		t.Error("write:", err)
	}
}

func TestOperationsAreReadInTheOrderOfTheirEnds(t *testing.T) {
	h := oneOfEach()
	h.Ops = []Op{
		{Process: 1, Type: OK, F: Poll, Start: 1, End: 9}, {Process: 2, Type: OK, F: Poll, Start: 1, End: 3},
		{Process: 3, Type: OK, F: Poll, Start: 1, End: 9}, {Process: 4, Type: OK, F: Poll, Start: 1, End: 4},
	}
	if h.Validate() == nil {
		t.Error("a history out of order is called valid")
	}
	got, err := Read(strings.NewReader(text(t, h)))
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	for _, o := range got.Ops {
		order = append(order, o.Process)
	}
	if fmt.Sprint(order) != "[2 4 1 3]" {
		t.Error(order)
	}
}

func TestManyProcessesWriteOneHistory(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, oneOfEach().Header)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for p := range 8 {
		all.Go(func() {
			for i := range 200 {
				if err := w.Op(Op{Process: p, Type: OK, F: Poll, Start: time.Duration(i), End: time.Duration(i + 1)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Op(Op{}); !errors.Is(err, ErrClosed) {
		t.Error("after the close:", err)
	}
	h, err := Read(&b)
	if err != nil || len(h.Ops) != 8*200 {
		t.Fatal(err, h)
	}
}

type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	n := min(f.left, len(b))
	f.left -= n
	if n < len(b) {
		return n, errors.New("disk full")
	}
	return n, nil
}

func TestAFullDiskIsTold(t *testing.T) {
	w, err := NewWriter(&full{left: 100}, oneOfEach().Header)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err == nil {
		t.Fatal("no error")
	}
	if err := w.Close(); err == nil || err.Error() != "disk full" {
		t.Error(err)
	}
}

func TestOperationsAreReadTheFastWay(t *testing.T) {
	h := Generate(Shape{Seed: 1, Transactions: true})
	h.Ops = append(h.Ops, Op{Process: 1, Type: Info, F: Poll, Start: 1 << 50, End: 1 << 51, Moved: []int{1}, Final: true, Error: "gone", Node: 2, Repeats: true})
	for i, l := range strings.Split(text(t, h), "\n")[1 : 1+len(h.Ops)] {
		op, ok := opLine([]byte(l))
		if !ok || !reflect.DeepEqual(op, h.Ops[i]) {
			t.Fatalf("%s: %v, %+v", l, ok, op)
		}
	}
}

// The fast way may refuse what encoding/json takes, but what it takes must be the same.
func FuzzOperationLine(f *testing.F) {
	for _, l := range []string{
		`{"op":{"p":1,"type":"ok","f":"poll","start":-0,"end":123456789012345678,"mops":[{"poll":[{"k":0,"v":1,"o":2}]},{}],"keys":[],"moved":[1,2],"final":false,"error":"x","node":3,"repeats":true}}`,
		`{"op":{"p":01}}`, `{"op":{"p":1,"p":2}}`, `{"op":{"type":"a\u0041"}}`, `{"op":{"mops":[{"send":{"k":1,"v":2,"o":-1},"poll":[]}]}}`,
		`{"op":{"p":1234567890123456789}}`, `{"op":{"p":null}}`, `{"op":{"p":1 }}`, `{"op":{"p":1,}}`, `{"op":{"mops":[{"send":{"k":1,"v":2,"o":-1},"send":{"k":1}}]}}`,
	} {
		f.Add([]byte(l))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		op, ok := opLine(in)
		if !ok {
			return
		}
		var l line
		if err := json.Unmarshal(in, &l); err != nil || l.kinds() != 1 || !reflect.DeepEqual(*l.Op, op) {
			t.Fatalf("%s: %+v, encoding/json gives %+v, %v", in, op, l.Op, err)
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, h := range []*History{oneOfEach(), Generate(Shape{Ops: 10, Keys: 1}), Generate(Shape{Ops: 10, Keys: 1, Transactions: true})} {
		var b bytes.Buffer
		if err := Write(&b, h); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := Read(bytes.NewReader(in))
		if err != nil {
			return
		}
		if err := h.Validate(); err != nil {
			t.Fatal("read, but not valid:", err)
		}
		Options{WW: true}.Check(h) // without a panic
		again, err := Read(strings.NewReader(text(t, h)))
		if err != nil {
			t.Fatal(err)
		}
		again.Header.Version = h.Header.Version
		if text(t, again) != text(t, h) {
			t.Fatal("what was written of it reads otherwise")
		}
	})
}
