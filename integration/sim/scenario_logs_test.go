package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// TestS10_AnAnswerToAnEarlierFetchIsDropped: it would cut what was appended since.
func TestS10_AnAnswerToAnEarlierFetchIsDropped(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		w.write(A, 2) // A's alone
		w.cut(A, controller)
		failover(t, w, B, B, C)
		w.write(B, 3)
		w.join(A)
		w.in(A)
		w.learn()
		late := w.asks(A)
		require.True(t, w.serves(late)) // the logs part
		w.broken(late)                  // the connection ends; another one brings the same answer
		w.sync(A, C)
		end, names := w.end(A), w.names(A)
		require.Equal(t, w.names(B), names)
		require.Equal(t, end, w.hw(A))
		w.takes(late)
		require.Equal(t, end, w.end(A))
		require.Equal(t, names, w.names(A))
	})
}

// TestS11_LogsThatPartTwiceMeet: the follower's newest epoch is unknown to the leader, and the one before ends elsewhere.
func TestS11_LogsThatPartTwiceMeet(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		w.write(A, 2) // epoch 0, A's alone
		moveTo(t, w, B, B, C)
		w.write(B, 2) // epoch 1, B's alone
		moveTo(t, w, A, A, C)
		w.write(A, 2) // epoch 2, A's alone
		moveTo(t, w, B, B, C)
		w.write(B, 1) // epoch 3
		a := w.log(A)
		ends := []int64{w.end(A)}
		for a.LastEpoch() != 3 {
			w.round(A)
			ends = append(ends, w.end(A))
			require.Less(t, len(ends), 6)
		}
		require.Equal(t, int64(4), ends[1], "what is newer than all that B knows of then")
		require.Equal(t, int64(2), ends[2], "where epoch 0 ends at B")
		w.sync(A, C)
		require.Equal(t, w.names(B), w.names(A))
	})
}

// TestS32_ATopicThatIsMadeAnewIsAnother: C returns with the old one's records.
func TestS32_ATopicThatIsMadeAnewIsAnother(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		old := committed(t, w, 3)
		p, gone := w.head(), w.id
		w.kill(C)
		w.out(C)
		w.apply(&metadata.DeleteTopics{Topics: []record.TopicID{gone.Topic}})
		w.id.Topic[1]++
		w.shadow = shadow{acked: map[int64]int{}, leaders: map[int32]int32{}, written: map[place]int{}}
		require.NoError(t, w.commit(&metadata.CreateTopics{Topics: []metadata.NewTopic{{ID: w.id.Topic, Name: "t", Assignment: [][]int32{{A, B, C}}, MinISR: 2,
			Rule: p.Rule, Durability: p.Durability, Recovery: p.Recovery}}}))
		w.learn()
		x := w.put(A, all)
		w.sync(B)
		w.boot(C)
		require.Nil(t, w.node(C).m.Replica(gone))
		require.EqualValues(t, 0, w.end(C), "the old records are not the new topic's")
		w.calm()
		require.Equal(t, namesOf(x), w.names(C))
		require.NotSubset(t, w.names(C), namesOf(old...))
		f := &partition.FetchRequest{ReplicaID: C, BrokerEpoch: w.node(C).be, Sequence: -1, SessionEpoch: -1, MaxBytes: 1 << 20,
			Partitions: []partition.FetchPartition{{ID: gone, FetchOffset: 3, MaxBytes: 1 << 20}}}
		res := w.node(A).m.Fetch(t.Context(), f).Wait(t.Context())
		require.Len(t, res.Answers, 1)
		require.ErrorIs(t, res.Answers[0].Err, partition.ErrUnknownPartition)
	})
}

// TestS38_AClockThatJumpsDeletesAndElectsNothing
func TestS38_AClockThatJumpsDeletesAndElectsNothing(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 12) // several segments
		p := w.head()
		w.node(A).dir.Tick(w.now)
		age := time.Duration(logstore.DefaultLogConfig().RetentionMS) * time.Millisecond
		for _, jump := range []time.Duration{time.Hour, -time.Hour, age + time.Hour, -age - time.Hour, 20 * age} {
			w.node(A).dir.Tick(w.now.Add(jump))
			y := w.put(A, all)
			w.sync(B, C)
			require.True(t, y.acked())
			x = append(x, y)
		}
		require.Equal(t, p.LeaderEpoch, w.head().LeaderEpoch)
		require.EqualValues(t, 0, w.log(A).StartOffset())
		require.Equal(t, namesOf(x...), reads(t, w, A))
	})
}

// TestS39_ABridgeBetweenTwoHalvesLeadsToOneLeader: B sees both others and C controls.
func TestS39_ABridgeBetweenTwoHalvesLeadsToOneLeader(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		first := committed(t, w, 2)
		w.cut(A, C)
		w.cut(A, controller)
		z := w.put(A, all)
		w.round(B) // it still follows A
		w.out(A)
		w.govern()
		leader := w.head().Leader
		require.Equal(t, B, leader)
		y := w.put(B, all)
		w.sync(C)
		require.True(t, y.acked())
		require.False(t, z.done)
		require.EqualValues(t, 2, w.hw(A))
		w.join(A)
		w.calm()
		require.Subset(t, reads(t, w, w.head().Leader), namesOf(append(first, y)...))
	})
}

// TestS41_AFollowerBelowTheLogStartBeginsThere
func TestS41_AFollowerBelowTheLogStartBeginsThere(t *testing.T) {
	for name, start := range map[string]int64{"within": 4, "up to the end": 6} {
		t.Run(name, func(t *testing.T) {
			byBoth(t, Setup{}, func(t *testing.T, w *World) {
				committed(t, w, 2)
				w.out(C)
				w.cut(A, C)
				w.learn()
				w.write(A, 4)
				w.sync(B)
				require.EqualValues(t, 6, w.hw(A))
				require.NoError(t, w.node(A).replica().RaiseStart(start))
				epoch := w.log(A).LastEpoch()
				w.join(A, C)
				w.in(C)
				w.learn()
				w.round(C)
				c := w.log(C)
				require.Equal(t, start, c.StartOffset())
				require.Equal(t, start, c.EndOffset())
				require.GreaterOrEqual(t, c.HighWatermark(), start)
				require.Equal(t, epoch, c.LastEpoch())
				w.sync(B, C)
				w.news()
				w.learn()
				// It leads, though its high watermark may be the log start alone.
				w.kill(C)
				w.boot(C)
				require.GreaterOrEqual(t, w.hw(C), start)
				w.calm()
				w.kill(A)
				failover(t, w, C, B, C)
				require.GreaterOrEqual(t, w.hw(C), start)
				x := w.put(C, all)
				w.sync(B)
				require.True(t, x.acked())
				require.GreaterOrEqual(t, x.answer.BaseOffset, int64(6))
			})
		})
	}
}

// TestS45_FencingALiveLeaderAgainAndAgainStopsNothing
func TestS45_FencingALiveLeaderAgainAndAgainStopsNothing(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		acked, epoch := 0, w.head().LeaderEpoch
		for range 40 {
			if leader := w.head().Leader; leader != metadata.NoNode {
				w.out(leader)
				w.learn()
				w.in(leader)
			}
			w.govern()
			if leader := w.head().Leader; leader != metadata.NoNode {
				x := w.put(leader, all)
				w.sync(A, B, C)
				w.news()
				w.learn()
				if x.acked() {
					acked++
				}
			}
			w.pass(time.Second)
		}
		require.Greater(t, acked, 10)
		epochs := w.head().LeaderEpoch - epoch
		require.GreaterOrEqual(t, epochs, int32(20))
		markers := int64(0)
		l := w.node(w.head().Leader).replica().Log()
		es, err := read(l, 0, l.EndOffset())
		require.NoError(t, err)
		for _, e := range es {
			if e.name < 0 {
				markers++
			}
		}
		require.LessOrEqual(t, markers, int64(epochs))
		noLoss(t, w)
	})
}

// TestS50_AnEmptiedLogKeepsItsPlace: no stale replica wins over it, and no offset is given twice.
func TestS50_AnEmptiedLogKeepsItsPlace(t *testing.T) {
	byBoth(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		w.cut(A, C)
		w.out(C)
		w.learn()
		w.write(A, 3)
		w.sync(B)
		require.EqualValues(t, 5, w.hw(A))
		require.NoError(t, w.node(A).replica().RaiseStart(5))
		w.power(B)
		w.boot(B)
		w.learn()
		w.sync(B) // is told to begin at 5
		w.news()
		w.learn()
		require.EqualValues(t, 5, w.log(B).StartOffset())
		require.EqualValues(t, 5, w.end(B))
		require.True(t, w.trusted(B))
		w.kill(A)
		w.in(C)
		w.out(A)
		w.govern()
		require.Equal(t, B, w.head().Leader, "C has two stale records")
		w.sync(C)
		w.news()
		w.learn()
		x := w.put(B, all)
		w.sync(C)
		require.True(t, x.acked())
		require.GreaterOrEqual(t, x.answer.BaseOffset, int64(5))
		noLoss(t, w)
	})
}

// TestS51_ALeaderOfAFlaggedElectionThatLosesItsMemoryIsFlaggedAgain
func TestS51_ALeaderOfAFlaggedElectionThatLosesItsMemoryIsFlaggedAgain(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		kept := allLosePower(t, w)
		w.boot(A, B, C)
		w.govern()
		require.Equal(t, B, w.head().Leader)
		require.Equal(t, 1, w.shadow.losses)
		w.pass(time.Second)
		w.power(B)
		w.out(B)
		w.learn()
		w.boot(B)
		w.calm()
		require.Equal(t, 2, w.shadow.losses)
		require.NotEqual(t, metadata.NoNode, w.head().Leader)
		require.Equal(t, kept, reads(t, w, w.head().Leader))
	})
}
