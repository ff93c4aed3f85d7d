package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// TestS05_AReportOfAProcessThatIsGoneElectsNobody: whoever reported may have lost since what it said.
func TestS05_AReportOfAProcessThatIsGoneElectsNobody(t *testing.T) {
	for name, crash := range map[string]func(w *World){
		"power lost": func(w *World) { w.power(B) },
		"killed":     func(w *World) { w.kill(B) }, // trusted all the same: the broker epoch alone tells
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Setup{Rule: metadata.RuleQuorum}, func(t *testing.T, w *World) {
				x := w.put(A, all)
				w.sync(B)
				require.True(t, x.acked())
				w.out(A)
				w.learn(B, C)
				ballot := w.ballot(B, B, C)
				crash(w)
				w.node(B).start() // registers first
				require.ErrorIs(t, w.commit(ballot), metadata.ErrStaleBrokerEpoch)
				require.Equal(t, metadata.NoNode, w.head().Leader)
				// Reports are collected again: B may not vote after a power loss, so that A has to come back.
				w.in(A, B)
				w.govern()
				require.Equal(t, A, w.head().Leader)
				noLoss(t, w)
			})
		})
	}
}

// TestS08b_AFetchOfAnOlderEpochCountsForNothing: what it speaks of may be cut since.
func TestS08b_AFetchOfAnOlderEpochCountsForNothing(t *testing.T) {
	play(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 3)
		w.write(A, 2)
		w.round(B)
		require.EqualValues(t, 5, w.end(B))
		old := w.asks(B) // from the first epoch, at 5
		w.cut(A, C)      // C stays at 3
		// C leads, and B cuts its log to 3.
		require.NoError(t, w.elect(C))
		w.learn(B, C)
		w.round(B)
		require.EqualValues(t, 3, w.end(B))
		// A leads again, with its 5 records.
		require.NoError(t, w.elect(A))
		w.learn(A, B, C)
		w.join(A, C)
		require.True(t, w.serves(old), "the session is answered")
		for _, v := range w.node(A).office().Replicas(w.log(A), w.now) {
			if v.ID == B {
				require.EqualValues(t, -1, v.Position, "nothing is known of B in this epoch")
			}
		}
		w.round(C)
		w.round(C)
		require.EqualValues(t, 5, w.end(C))
		require.EqualValues(t, 3, w.hw(A), "B has 3 records")
		w.sync(B, C)
		require.EqualValues(t, 5, w.hw(A))
	})
}

// TestS40b_AConsumerReadsNothingAboveTheHighWatermark, whatever the leader has and wherever copies count.
func TestS40b_AConsumerReadsNothingAboveTheHighWatermark(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		first := committed(t, w, 2)
		x := w.put(A, 1)
		require.Equal(t, namesOf(first...), reads(t, w, A))
		w.round(B)
		w.round(C)
		require.EqualValues(t, 3, w.end(B), "a follower is served to the leader's end")
		require.Equal(t, namesOf(first...), reads(t, w, A), "nobody has told that it has the record")
		if w.head().Durability == metadata.DurabilityDisk {
			for range 3 {
				w.round(B)
				w.round(C)
			}
			require.Equal(t, namesOf(first...), reads(t, w, A), "no copy is on disk")
			w.flushes(B)
			w.round(B)
			require.Equal(t, namesOf(first...), reads(t, w, A), "one copy is on disk")
		}
		w.sync(B, C)
		require.Equal(t, namesOf(append(first, x)...), reads(t, w, A))
	})
}

// TestS53_BytesThatAreBeingSentNeverChange: a leader is deposed while it sends, cuts its log and fetches other records to
// the same place.
func TestS53_BytesThatAreBeingSentNeverChange(t *testing.T) {
	play(t, Setup{Replicas: 5, Rule: metadata.RuleQuorum, MinISR: 3}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		old := w.write(A, 2)
		// D's fetch is read by A, and not sent yet.
		f := w.asks(D)
		req := requestOf(f.x.Request)
		req.MaxWait = 0
		res := w.node(A).m.Fetch(t.Context(), req).Wait(t.Context())
		require.NoError(t, res.Err)
		require.Len(t, res.Answers, 1)
		require.NotEmpty(t, res.Answers[0].Spans)
		before := bytesOf(t, res.Answers[0].Spans)
		// B leads without those records, and A takes others to their place.
		w.cut(D, controller)
		w.out(A)
		w.learn(B, C, E)
		require.NoError(t, w.vote(B, B, C, E))
		fresh := w.write(B, 3)
		w.in(A)
		w.learn(A)
		w.sync(A, C, E)
		require.Equal(t, w.names(B), w.names(A))
		require.NotSubset(t, w.names(A), namesOf(old...))
		for _, s := range fresh {
			require.True(t, s.acked())
		}
		// The connection goes on.
		require.Equal(t, before, bytesOf(t, res.Answers[0].Spans))
		f.resp = w.responseOf(f.x.Request, &res)
		w.takes(f)
		require.EqualValues(t, 4, w.end(D), "the old epoch's records, whole")
		require.Subset(t, w.names(D), namesOf(old...))
		w.join(D)
		w.learn(D)
		w.sync(D)
		require.Equal(t, w.names(B), w.names(D))
		noLoss(t, w)
	})
}

func bytesOf(t *testing.T, spans []record.Span) (b []byte) {
	t.Helper()
	for _, s := range spans {
		piece := make([]byte, s.Len)
		_, err := s.Src.ReadAt(piece, s.Off)
		require.NoError(t, err)
		b = append(b, piece...)
	}
	return b
}

// TestS48_NothingCountsFromDiskBeforeItIsThere: the change from memory to disk.
func TestS48_NothingCountsFromDiskBeforeItIsThere(t *testing.T) {
	disk := metadata.TopicConfigChange{Durability: metadata.DurabilityDisk}
	t.Run("proof", func(t *testing.T) {
		byRule(t, Setup{}, func(t *testing.T, w *World) {
			committed(t, w, 3)
			require.NoError(t, w.alter(disk))
			w.learn()
			point := w.end(A)
			p := w.head()
			forged := func(nodes ...int32) error {
				f := metadata.Finish{Partition: w.id, Leader: A, LeaderBrokerEpoch: w.node(A).be, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Point: point}
				for _, id := range nodes {
					f.Evidence = append(f.Evidence, metadata.Evidence{Broker: w.node(id).epoch(), Offset: point})
				}
				return w.commit(&metadata.FinishChange{Items: []metadata.Finish{f}})
			}
			require.ErrorIs(t, forged(A), metadata.ErrNotEligible)
			require.ErrorIs(t, forged(B, C), metadata.ErrNotEligible, "the leader's own disk is not proven")
			for range 4 {
				w.round(B)
				w.round(C)
			}
			require.Empty(t, w.held("finish"), "nothing is on disk")
			require.EqualValues(t, 0, w.log(A).FlushedOffset())
			w.flushes(B)
			w.round(B)
			require.Empty(t, w.held("finish"), "one copy is on disk")
			w.flushes(C)
			w.round(C)
			require.Empty(t, w.held("finish"), "the leader's is not")
			x := w.put(A, all)
			w.round(B)
			w.round(C)
			w.round(B)
			w.round(C)
			require.False(t, x.acked(), "no position counts before its fsync")
			w.sync(B, C)
			require.True(t, x.acked())
			w.pass(time.Second)
			require.NotEmpty(t, w.net)
			w.news()
			require.Equal(t, metadata.DurabilityDisk, w.head().Durability)
			w.learn()
			w.power(A, B, C)
			w.boot(A, B, C)
			w.govern()
			require.NotEqual(t, metadata.NoNode, w.head().Leader)
			noLoss(t, w)
		})
	})
	t.Run("time proves nothing", func(t *testing.T) {
		byRule(t, Setup{}, func(t *testing.T, w *World) {
			committed(t, w, 3)
			require.NoError(t, w.alter(disk))
			w.learn()
			w.flushes(A)
			for range 8 { // longer than the leader waits for all
				w.round(B)
				w.round(C)
				w.pass(2 * time.Second)
				require.Empty(t, w.held("finish"), "nobody else's copy is on disk")
			}
		})
	})
	t.Run("an amnesiac stays one", func(t *testing.T) {
		byRule(t, Setup{}, func(t *testing.T, w *World) {
			x := committed(t, w, 3)
			w.power(B)
			w.boot(B)
			require.False(t, w.trusted(B))
			require.NoError(t, w.alter(disk))
			w.learn()
			require.False(t, w.trusted(B))
			for range 8 { // A and C prove it; B fetches nothing
				w.round(C)
				w.flushes(A, C)
			}
			w.pass(11 * time.Second)
			w.news()
			w.learn()
			if w.head().Durability == metadata.DurabilityDisk {
				require.False(t, w.trusted(B), "its log is empty")
			}
			w.kill(A)
			w.out(A)
			w.govern()
			require.NotEqual(t, B, w.head().Leader, "B has nothing")
			w.boot(A)
			w.calm()
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
	t.Run("a follower that has not heard of it", func(t *testing.T) {
		byRule(t, Setup{}, func(t *testing.T, w *World) {
			committed(t, w, 2)
			w.cut(B, controller)
			w.cut(C, controller)
			old := w.asks(B)
			require.NoError(t, w.alter(disk))
			w.learn(A)
			x := w.put(A, all)
			require.True(t, w.serves(old))
			w.takes(old)
			for range 4 {
				w.round(B)
				w.round(C)
			}
			w.flushes(A)
			require.False(t, x.acked(), "B and C count in memory: their epoch is over")
			require.EqualValues(t, 2, w.hw(A))
			require.Empty(t, w.held("finish"))
			w.join(B)
			w.join(C)
			w.learn()
			w.sync(B, C)
			require.True(t, x.acked())
		})
	})
	t.Run("all lose power right after", func(t *testing.T) {
		byRule(t, Setup{}, func(t *testing.T, w *World) {
			x := committed(t, w, 2)
			require.NoError(t, w.alter(disk))
			w.learn()
			w.sync(B, C)
			w.pass(time.Second)
			finish := w.held("finish")
			require.NotEmpty(t, finish)
			require.NoError(t, w.commit(finish[0].cmd))
			require.Equal(t, metadata.DurabilityDisk, w.head().Durability)
			w.power(A, B, C)
			w.boot(A, B, C)
			w.govern()
			require.NotEqual(t, metadata.NoNode, w.head().Leader)
			w.calm()
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
}

// TestS42_ATopicOnDiskOutlivesThePowerOfAll: nobody has to be waited for, and nothing that was cut comes back.
func TestS42_ATopicOnDiskOutlivesThePowerOfAll(t *testing.T) {
	onDisk := Setup{Durability: metadata.DurabilityDisk}
	t.Run("plain", func(t *testing.T) {
		byRule(t, onDisk, func(t *testing.T, w *World) {
			x := committed(t, w, 4)
			w.power(A, B, C)
			w.boot(A, B, C)
			for _, id := range []int32{A, B, C} {
				require.True(t, w.trusted(id))
			}
			w.govern()
			require.NotEqual(t, metadata.NoNode, w.head().Leader)
			w.calm()
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
	t.Run("a majority is enough", func(t *testing.T) {
		s := onDisk
		s.Rule = metadata.RuleQuorum
		play(t, s, func(t *testing.T, w *World) {
			x := committed(t, w, 4)
			w.power(A, B, C)
			w.out(A)
			w.boot(B, C)
			w.govern()
			require.Contains(t, []int32{B, C}, w.head().Leader, "A has the records too, and nobody waits for it")
			w.sync(B, C)
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
	t.Run("a follower cut its log just before", func(t *testing.T) {
		s := onDisk
		s.Rule = metadata.RuleQuorum
		play(t, s, func(t *testing.T, w *World) {
			x := committed(t, w, 2)
			// A's tail of three segments is on its disk, and on nobody else's.
			w.cut(A, B)
			w.cut(A, C)
			tail := w.write(A, 20)
			w.flushes(A)
			require.EqualValues(t, 22, w.log(A).FlushedOffset())
			require.Greater(t, w.log(A).Segments(), 2)
			w.out(A)
			w.learn(B, C)
			require.NoError(t, w.vote(B, B, C))
			w.in(A)
			w.join(A)
			w.learn(A)
			w.round(A) // parts, and cuts
			require.EqualValues(t, 2, w.end(A))
			w.power(A, B, C)
			w.boot(A, B, C)
			require.EqualValues(t, 2, w.end(A), "the cut was on disk before anything else")
			require.True(t, w.trusted(A))
			w.govern()
			w.calm()
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			require.NotSubset(t, w.names(A), namesOf(tail...))
			noLoss(t, w)
		})
	})
	t.Run("two followers had flushed what the leader had not", func(t *testing.T) {
		s := onDisk
		s.Rule = metadata.RuleQuorum
		play(t, s, func(t *testing.T, w *World) {
			x := committed(t, w, 2)
			y := w.put(A, all)
			for range 3 {
				w.round(B)
				w.round(C)
				w.flushes(B, C)
			}
			require.True(t, y.acked(), "W copies are on disk without the leader's")
			require.EqualValues(t, 2, w.log(A).FlushedOffset())
			w.power(A, B, C)
			w.boot(A, B, C)
			w.learn(A)
			require.EqualValues(t, 2, w.end(A))
			require.Equal(t, metadata.NoNode, w.head().Leader)
			require.ErrorIs(t, w.commit(w.ballot(A, A)), metadata.ErrNotEligible, "the last leader's own report is not enough")
			w.govern()
			require.Contains(t, []int32{B, C}, w.head().Leader)
			w.calm()
			require.Equal(t, namesOf(append(x, y)...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
}
