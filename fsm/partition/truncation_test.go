package partition

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
)

// converge lets a follower with log f find its place at a leader with log l, and gives the rounds it took.
func converge(t *testing.T, l, f *memLog) (rounds int) {
	t.Helper()
	r := &metadata.Partition{LeaderEpoch: 1000}
	for ; rounds < 40; rounds++ {
		end := f.EndOffset()
		v, whole := Place(end, EpochBefore(end, f), l)
		if whole {
			return rounds
		}
		start, epoch := l.Start()
		j := Judge(r, Asked{1000, end}, Answer{LeaderEpoch: 1000, Reset: v.Reset, Diverging: v.Diverging, At: v.At, LogStart: start, LogStartEpoch: epoch}, f)
		switch j.Action {
		case ActTruncate:
			f.cut(j.To)
		case ActReset:
			f.reset(j.To, j.ToEpoch)
		default:
			t.Fatalf("round %d: %+v", rounds, j)
		}
	}
	t.Fatalf("no end: leader %+v, follower %+v", l, f)
	return 0
}

// common is the offset up to which both logs hold the same records.
func common(a, b *memLog) int64 {
	o := max(a.start, b.start)
	for o < a.EndOffset() && o < b.EndOffset() && a.recs[o-a.start] == b.recs[o-b.start] {
		o++
	}
	return o
}

func TestDivergenceOfTheKIP279Shape(t *testing.T) { // S11
	shapes := [][]int32{{1, 1, 3}, {1, 2, 2}, {1, 1, 1}, {1, 2, 4}, {1}, {}}
	for _, a := range shapes {
		for _, b := range shapes {
			l, f := newMemLog(a...), newMemLog(b...)
			for i := range l.recs { // records of one epoch at one offset are the same
				l.recs[i].name = 100*int(l.recs[i].epoch) + i
			}
			for i := range f.recs {
				f.recs[i].name = 100*int(f.recs[i].epoch) + i
			}
			want := common(l, f)
			rounds := converge(t, l, f)
			require.Equal(t, want, f.EndOffset(), "leader %v, follower %v", a, b)
			require.LessOrEqual(t, rounds, 2, "leader %v, follower %v", a, b)
		}
	}
}

// TestTruncationFindsTheCommonPrefix draws histories in which each epoch's leader starts from a part of some earlier log,
// and lets any log follow any other: nothing that both have is cut, everything else is.
func TestTruncationFindsTheCommonPrefix(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 4000 {
		logs := []*memLog{newMemLog()}
		for epoch := int32(0); epoch < int32(2+rng.IntN(8)); epoch++ {
			from := logs[rng.IntN(len(logs))]
			next := newMemLog()
			for _, r := range from.recs[:rng.IntN(len(from.recs)+1)] {
				next.append(r)
			}
			for range rng.IntN(4) {
				next.append(rec{epoch, int(epoch)*100 + len(next.recs)})
			}
			logs = append(logs, next)
		}
		l, f := logs[rng.IntN(len(logs))], logs[rng.IntN(len(logs))]
		if l == f {
			continue
		}
		if rng.IntN(3) == 0 && l.EndOffset() > 0 {
			l.raise(1 + rng.Int64N(l.EndOffset()))
		}
		want := common(l, f)
		if f.EndOffset() < l.start || l.start > want {
			want = l.start // what is left is taken over from there
		}
		converge(t, l, f)
		if f.EndOffset() != want {
			t.Fatalf("ends at %d, common is %d: leader %+v, follower %+v", f.EndOffset(), want, l, f)
		}
	}
}
