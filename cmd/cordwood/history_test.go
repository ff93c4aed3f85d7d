package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// logged is one record of a hand-made log.
type logged struct {
	p      int32
	offset int64
	id     string
}

func judged(t *testing.T, acked string, starts map[int32]int64, log []logged) (*verifyView, *history) {
	t.Helper()
	h := newHistory()
	if err := h.readLines("f", strings.NewReader(acked), func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	h.begin()
	for _, r := range log {
		h.record(r.p, r.offset, r.id)
	}
	return h.judge(starts), h
}

func TestVerifyJudgesHandMadeHistories(t *testing.T) {
	acked := "0\t0\tr-0\n0\t1\tr-1\n1\t0\tr-2\n"
	cases := []struct {
		name   string
		acked  string
		starts map[int32]int64
		log    []logged
		want   verifyView
		code   int
	}{
		{"all there", acked, nil, []logged{{0, 0, "r-0"}, {1, 0, "r-2"}, {0, 1, "r-1"}}, verifyView{Acknowledged: 3, Found: 3, Verdict: "ok"}, 0},
		{"nothing acknowledged, nothing there", "", nil, nil, verifyView{Verdict: "ok"}, 0},
		{"the tail is gone", acked, nil, []logged{{0, 0, "r-0"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 2, Lost: 1, Verdict: "lost"}, 20},
		{"a hole", acked, nil, []logged{{0, 1, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 2, Lost: 1, Verdict: "lost"}, 20},
		{"another record stands there", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "x-9"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 2, Lost: 1, Verdict: "lost"}, 20},
		{"at another offset than acknowledged", acked, nil, []logged{{0, 0, "r-0"}, {0, 5, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 2, Lost: 1, Verdict: "lost"}, 20},
		{"in another partition than acknowledged", acked, nil, []logged{{0, 0, "r-0"}, {1, 0, "r-2"}, {1, 1, "r-1"}}, verifyView{Acknowledged: 3, Found: 2, Lost: 1, Reordered: 1, Verdict: "lost"}, 20},
		{"twice, in one partition", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {0, 2, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, Duplicated: 1, Verdict: "duplicated"}, 21},
		{"three times is one id", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {0, 2, "r-1"}, {0, 3, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, Duplicated: 1, Verdict: "duplicated"}, 21},
		{"twice, in two partitions", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {1, 0, "r-2"}, {1, 1, "r-0"}}, verifyView{Acknowledged: 3, Found: 3, Duplicated: 1, Verdict: "duplicated"}, 21},
		{"an old copy is a duplicate, not a reordering", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {0, 2, "r-0"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, Duplicated: 1, Verdict: "duplicated"}, 21},
		{"out of order", "0\t0\tr-1\n0\t1\tr-0\n", nil, []logged{{0, 0, "r-1"}, {0, 1, "r-0"}}, verifyView{Acknowledged: 2, Found: 2, Reordered: 1, Verdict: "reordered"}, 21},
		{"order is by partition and tag", "0\t0\ta-5\n0\t1\tb-1\n1\t0\ta-3\n", nil, []logged{{0, 0, "a-5"}, {0, 1, "b-1"}, {1, 0, "a-3"}}, verifyView{Acknowledged: 3, Found: 3, Verdict: "ok"}, 0},
		{"both worse ones", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-0"}, {1, 0, "r-2"}, {1, 1, "r-1"}}, verifyView{Acknowledged: 3, Found: 2, Lost: 1, Duplicated: 1, Reordered: 1, Verdict: "lost"}, 20},
		{"expired", acked, map[int32]int64{0: 1, 1: 0}, []logged{{0, 1, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 2, Expired: 1, Verdict: "ok"}, 0},
		{"expired does not excuse what is above the log start", acked, map[int32]int64{0: 1, 1: 0}, []logged{{1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 1, Expired: 1, Lost: 1, Verdict: "lost"}, 20},
		{"read before it expired", acked, map[int32]int64{0: 2, 1: 1}, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, Verdict: "ok"}, 0},
		{"unacknowledged but present", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {0, 2, "r-77"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, UnacknowledgedPresent: 1, Verdict: "ok"}, 0},
		{"other writers do not matter", acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {0, 2, "q-1"}, {0, 3, ""}, {0, 4, "free text"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, Verdict: "ok"}, 0},
		{"one offset acknowledged for two records", "0\t0\tr-0\n0\t0\tr-1\n", nil, []logged{{0, 0, "r-0"}}, verifyView{Acknowledged: 2, Found: 1, Lost: 1, Verdict: "lost"}, 20},
		{"a file given twice", acked + acked, nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, Verdict: "ok"}, 0},
		{"a line that was being written", acked + "0\t12", nil, []logged{{0, 0, "r-0"}, {0, 1, "r-1"}, {1, 0, "r-2"}}, verifyView{Acknowledged: 3, Found: 3, Verdict: "ok"}, 0},
		{"a tag with dashes", "0\t0\tmy-run-1-5\n", nil, []logged{{0, 0, "my-run-1-5"}}, verifyView{Acknowledged: 1, Found: 1, Verdict: "ok"}, 0},
		{"numbers far apart", "0\t0\tr-0\n0\t1\tr-9223372036854775807\n", nil, []logged{{0, 0, "r-0"}, {0, 1, "r-9223372036854775807"}}, verifyView{Acknowledged: 2, Found: 2, Verdict: "ok"}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.want.APIVersion = apiVersion
			got, _ := judged(t, c.acked, c.starts, c.log)
			if d := cmp.Diff(&c.want, got); d != "" {
				t.Error(d)
			}
			if got.exitCode() != c.code {
				t.Errorf("exit code %d, want %d", got.exitCode(), c.code)
			}
		})
	}
}

func TestVerifySaysWhatIsLostAndWhy(t *testing.T) {
	_, h := judged(t, "0\t0\tr-0\n0\t1\tr-1\n0\t2\tr-2\n", nil, []logged{{0, 1, "x-1"}})
	want := []missingRecord{{"r-0", 0, 0, "nothing is there"}, {"r-1", 0, 1, `"x-1" is there`}, {"r-2", 0, 2, "the log ends before it"}}
	if d := cmp.Diff(want, h.missing, cmp.AllowUnexported(missingRecord{})); d != "" {
		t.Error(d)
	}
}

func TestAFileThatIsNoAckedFileIsRefusedWithItsPlace(t *testing.T) {
	for _, bad := range []string{"x\t0\tr-0", "0\tx\tr-0", "0\t0\tr", "0\t0", "0\t0\tr-0\tmore", "-1\t0\tr-0", "0\t-1\tr-0", "0\t0\tr--", "0\t0\tr-+5", "", strings.Repeat("a", ackedLineMax+1)} {
		err := newHistory().readLines("f", strings.NewReader("0\t0\tr-0\n"+bad+"\n"), func(string, ...any) {})
		if err == nil || !strings.HasPrefix(err.Error(), "f:2: ") {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

// TestVerifyFindsExactlyWhatWasTakenAway makes logs that are right, takes records out, and counts.
func TestVerifyFindsExactlyWhatWasTakenAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "records")
		var acked strings.Builder
		var log []logged
		next := map[int32]int64{}
		lost, unacked := int64(0), int64(0)
		for i := range n {
			p := rapid.Int32Range(0, 2).Draw(t, "partition")
			id := fmt.Sprintf("r-%d", i)
			isAcked, isThere := rapid.Bool().Draw(t, "acked"), rapid.IntRange(0, 9).Draw(t, "there") > 0
			if isAcked {
				fmt.Fprintf(&acked, "%d\t%d\t%s\n", p, next[p], id)
			}
			if isThere {
				log = append(log, logged{p, next[p], id})
			}
			if isAcked && !isThere {
				lost++
			}
			if !isAcked && isThere {
				unacked++
			}
			next[p]++
		}
		h := newHistory()
		if err := h.readLines("f", strings.NewReader(acked.String()), func(string, ...any) {}); err != nil {
			t.Fatal(err)
		}
		h.begin()
		for _, r := range log {
			h.record(r.p, r.offset, r.id)
		}
		v := h.judge(nil)
		if acked.Len() == 0 {
			unacked = 0 // no tag is known
		}
		if v.Lost != lost || v.UnacknowledgedPresent != unacked || v.Duplicated != 0 || v.Reordered != 0 || v.Found+v.Lost != v.Acknowledged {
			t.Fatalf("%+v, want %d lost, %d unacknowledged", v, lost, unacked)
		}
	})
}

func FuzzAckedFile(f *testing.F) {
	f.Add("0\t0\tr-0\n")
	f.Add("0\t9223372036854775807\tr-9223372036854775807\n1\t2")
	f.Fuzz(func(t *testing.T, text string) {
		h := newHistory()
		if h.readLines("f", strings.NewReader(text), func(string, ...any) {}) != nil {
			return
		}
		h.begin()
		var records int64
		for p, s := range h.partitions {
			for _, a := range s.acked {
				h.record(p, a.offset, fmt.Sprintf("%s-%d", h.names[a.tag], a.n))
				records++
			}
		}
		if v := h.judge(nil); v.Found+v.Lost != v.Acknowledged || v.Acknowledged != records {
			t.Fatalf("%+v of %d records", v, records)
		}
	})
}
