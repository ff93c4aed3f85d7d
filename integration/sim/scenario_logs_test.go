package sim

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// TestS10_AnAnswerToAnEarlierFetchIsDropped: it would cut what was appended since.
func TestS10_AnAnswerToAnEarlierFetchIsDropped(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
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
	byRule(t, Setup{}, func(t *testing.T, w *World) {
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

// TestS33_BitsThatRotAreRepairedFromTheOthers: on the leader, and then on its successor at another place.
func TestS33_BitsThatRotAreRepairedFromTheOthers(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 4)
		for _, rot := range []int64{1, 3} {
			leader := w.head().Leader
			w.flip(leader, rot)
			w.scrub(leader)
			require.NotEqual(t, leader, w.head().Leader)
			require.EqualValues(t, -1, w.head().Member(leader).Cert)
			require.NotContains(t, w.head().ISR, leader)
			w.calm()
			require.NotContains(t, []int32{metadata.NoNode, leader}, w.head().Leader)
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			require.Equal(t, namesOf(x...), w.names(leader))
			require.True(t, w.trusted(leader))
		}
		noLoss(t, w)
	})
}

// TestS34_WhatACrashLeavesIsCutOrTold: by what the page cache outlived.
func TestS34_WhatACrashLeavesIsCutOrTold(t *testing.T) {
	tails := map[string]func(w *World) []byte{
		"a batch that ends past the file": func(w *World) []byte { b := w.nextBatch(B); return b[:len(b)/2] },
		"a whole batch of wrong checksum": func(w *World) []byte { b := w.nextBatch(B); b[len(b)-1] ^= 1; return b },
		"half a batch and garbage": func(w *World) []byte {
			b := w.nextBatch(B)
			for i := len(b) / 2; i < len(b); i++ {
				b[i] = 0xa5
			}
			return append(b, b...)
		},
	}
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			t.Run("killed", func(t *testing.T) {
				byRule(t, Setup{}, func(t *testing.T, w *World) {
					x := committed(t, w, 3)
					bytes := tail(w)
					w.kill(B)
					w.spoil(B, bytes)
					w.boot(B)
					if name == "a batch that ends past the file" {
						require.Zero(t, w.Counts["damage told"])
						require.True(t, w.trusted(B))
					} else {
						require.Equal(t, 1, w.Counts["damage told"])
						require.False(t, w.trusted(B))
						require.NotContains(t, w.head().ISR, B)
					}
					w.calm()
					require.Equal(t, namesOf(x...), w.names(B))
					require.True(t, w.trusted(B))
				})
			})
			t.Run("power lost", func(t *testing.T) {
				for _, rule := range []metadata.CommitRule{metadata.RuleISR, metadata.RuleQuorum} {
					t.Run(string(rule), func(t *testing.T) {
						byDurability(t, Setup{Rule: rule}, func(t *testing.T, w *World) {
							x := committed(t, w, 3)
							w.node(B).replica().Flush()
							bytes := tail(w)
							w.power(B)
							w.spoil(B, bytes)
							w.boot(B)
							require.Zero(t, w.Counts["damage told"], "a power loss may leave this")
							require.EqualValues(t, 3, w.end(B))
							require.Equal(t, w.head().Durability == metadata.DurabilityDisk, w.trusted(B))
							w.calm()
							require.Equal(t, namesOf(x...), w.names(B))
							require.True(t, w.trusted(B))
						})
					})
				}
			})
		})
	}
}

// nextBatch is what a node would append next.
func (w *World) nextBatch(id int32) []byte {
	plain := newBatch(99)
	h, _ := record.ParseHeader(plain)
	h.BaseOffset, h.LeaderEpoch = w.end(id), w.head().LeaderEpoch
	return record.AppendBatch(nil, h, plain[record.HeaderSize:])
}

// spoil appends bytes to the newest segment of a node that is down.
func (w *World) spoil(id int32, tail []byte) {
	w.onSegment(id, func(f vfs.File) error {
		size, err := f.Size()
		if err == nil {
			_, err = f.WriteAt(tail, size)
		}
		if err == nil {
			err = f.Sync()
		}
		return err
	})
}

// flip turns a bit of the batch that holds an offset, unseen.
func (w *World) flip(id int32, offset int64) {
	w.onSegment(id, func(f vfs.File) error {
		size, err := f.Size()
		if err != nil {
			return err
		}
		sc := record.Scan(f, 0, size)
		for sc.Next() {
			if sc.Header.BaseOffset <= offset && offset < sc.Header.EndOffset() {
				at, b := sc.Pos+record.HeaderSize+5, []byte{0}
				if _, err := f.ReadAt(b, at); err != nil {
					return err
				}
				b[0] ^= 4
				_, err := f.WriteAt(b, at)
				return err
			}
		}
		return io.ErrUnexpectedEOF
	})
}

func (w *World) onSegment(id int32, do func(f vfs.File) error) {
	f, err := w.node(id).disk.OpenReadWrite("/data/t-0/00000000000000000000.log")
	if err != nil {
		w.fail("open a segment: %v", err)
	}
	if err := do(f); err != nil {
		w.fail("change a segment: %v", err)
	}
	if err := f.Close(); err != nil {
		w.fail("close a segment: %v", err)
	}
}

// scrub reads a node's log through and tells what is found.
func (w *World) scrub(id int32) {
	n := w.node(id)
	l := n.replica().Log()
	if _, err := read(l, l.StartOffset(), l.EndOffset()); err != nil {
		n.m.OnDamage(l, err.Error())
		n.tell()
	}
	w.check()
}

// TestS35_AFullDiskRefusesAndKeepsWhatWasAcknowledged
func TestS35_AFullDiskRefusesAndKeepsWhatWasAcknowledged(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 3)
		w.node(A).disk.SetCapacity(1)
		y := w.put(A, all)
		w.settle()
		require.True(t, y.refused())
		require.ErrorIs(t, y.answer.Err, record.ErrDirFull)
		require.EqualValues(t, 3, w.end(A), "no part of the batch stays")
		require.Equal(t, namesOf(x...), w.names(A))
		require.Equal(t, namesOf(x...), reads(t, w, A))
		w.node(A).disk.SetCapacity(0)
		w.pass(5 * time.Second)
		w.node(A).dir.Tick(w.now)
		z := w.put(A, all)
		w.sync(B, C)
		require.True(t, z.acked())
		require.Equal(t, namesOf(append(x, z)...), w.names(A))
	})
}

// TestS36_AFollowerWithAFullDiskHoldsUpNobodyForGood, and under the quorum rule nobody at all.
func TestS36_AFollowerWithAFullDiskHoldsUpNobodyForGood(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		committed(t, w, 3)
		w.node(C).disk.SetCapacity(1)
		x := w.put(A, all)
		w.sync(B, C)
		require.EqualValues(t, 3, w.end(C))
		require.Equal(t, w.head().Rule == metadata.RuleQuorum, x.acked())
		for range 5 {
			w.sync(B, C)
			w.pass(3 * time.Second)
			w.news()
			w.learn()
		}
		require.NotContains(t, w.head().ISR, C)
		require.True(t, x.acked())
		y := w.put(A, all)
		w.sync(B)
		require.True(t, y.acked())
		w.node(C).disk.SetCapacity(0)
		w.node(C).dir.Tick(w.now)
		w.calm()
		require.Contains(t, w.head().ISR, C)
	})
}

// TestS37_ASlowDiskOfAFollowerCostsTheISRRuleOneLag, and the quorum rule nothing.
func TestS37_ASlowDiskOfAFollowerCostsTheISRRuleOneLag(t *testing.T) {
	byRule(t, Setup{Durability: metadata.DurabilityDisk}, func(t *testing.T, w *World) {
		committed(t, w, 2)
		x := w.put(A, all)
		began, waited, changes := w.now, time.Duration(0), 0
		for k := range 40 { // C's disk takes 5 s, the others' nothing
			for range 3 {
				w.round(B)
				w.round(C)
				w.flushes(A, B)
			}
			if k%10 == 9 {
				w.flushes(C)
			}
			if x.acked() {
				waited = max(waited, w.now.Sub(began))
				x, began = w.put(A, all), w.now
			}
			w.pass(500 * time.Millisecond)
			isr := len(w.head().ISR)
			w.news()
			w.learn()
			if len(w.head().ISR) != isr {
				changes++
			}
		}
		if w.head().Rule == metadata.RuleQuorum {
			require.LessOrEqual(t, waited, 500*time.Millisecond, "a step of this test")
		} else {
			require.LessOrEqual(t, waited, 12*time.Second)
		}
		require.LessOrEqual(t, changes, 4, "in 20 s, at a lag of 10 s")
	})
}

// TestS38_AClockThatJumpsDeletesAndElectsNothing
func TestS38_AClockThatJumpsDeletesAndElectsNothing(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
		x := committed(t, w, 12) // several segments
		p := w.head()
		for _, jump := range []time.Duration{time.Hour, -time.Hour} {
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
			byRule(t, Setup{}, func(t *testing.T, w *World) {
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

// TestS43_AnOldCopyOfADiskIsNotTheDisk
func TestS43_AnOldCopyOfADiskIsNotTheDisk(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		committed(t, w, 1)
		snapshot := w.node(B).disk.Crash(vfs.CrashKeep, 1)
		w.kill(B)
		w.boot(B)
		require.True(t, w.trusted(B))
		x := committed(t, w, 2)
		w.kill(B)
		w.node(B).disk = snapshot
		w.boot(B)
		require.Equal(t, metadata.RestartLossyMedia, w.image().Broker(B).Class)
		require.False(t, w.trusted(B))
		w.calm()
		require.True(t, w.trusted(B))
		require.Subset(t, w.names(B), namesOf(x...))
	})
}

// TestS44_ProcessesOnTheSameVolumeAndBootLoseNothing
func TestS44_ProcessesOnTheSameVolumeAndBootLoseNothing(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		x := w.put(A, all)
		w.sync(B)
		require.True(t, x.acked())
		w.kill(A, B)
		w.boot(A, B)
		require.True(t, w.trusted(A))
		require.True(t, w.trusted(B))
		w.govern()
		require.Contains(t, []int32{A, B}, w.head().Leader)
		w.calm()
		require.Equal(t, namesOf(x), reads(t, w, w.head().Leader))
		noLoss(t, w)
	})
}

// TestS45_FencingALiveLeaderAgainAndAgainStopsNothing
func TestS45_FencingALiveLeaderAgainAndAgainStopsNothing(t *testing.T) {
	byRule(t, Setup{}, func(t *testing.T, w *World) {
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
	byRule(t, Setup{}, func(t *testing.T, w *World) {
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

// TestS54_TheLastLeaderComesBackByItsOwnWord
func TestS54_TheLastLeaderComesBackByItsOwnWord(t *testing.T) {
	t.Run("fenced by mistake, again and again", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x := committed(t, w, 3)
			w.power(B, C)
			w.boot(B, C)
			for range 10 {
				w.out(A)
				w.learn()
				require.Equal(t, metadata.Offline, w.image().Safety(w.head()))
				w.in(A)
				w.govern()
				require.Equal(t, A, w.head().Leader)
				require.False(t, w.trusted(B))
			}
			w.calm()
			require.True(t, w.trusted(B))
			require.Equal(t, namesOf(x...), reads(t, w, A))
			noLoss(t, w)
		})
	})
	t.Run("fenced after its report", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x := committed(t, w, 3)
			w.kill(A)
			w.out(A)
			w.learn()
			ballot := w.ballot(B, B, C)
			w.out(B)
			require.ErrorIs(t, w.commit(ballot), metadata.ErrNotEligible)
			w.kill(B)
			w.boot(A)
			w.calm()
			require.Contains(t, []int32{A, C}, w.head().Leader)
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
}

// TestS55_AStartThatDiesBeforeItsNoteIsForgottenByNobody
func TestS55_AStartThatDiesBeforeItsNoteIsForgottenByNobody(t *testing.T) {
	t.Run("killed between registration and note", func(t *testing.T) {
		byRule(t, Setup{}, func(t *testing.T, w *World) {
			x := committed(t, w, 3)
			w.kill(A, B, C)
			for range 5 {
				for _, id := range w.ids() {
					n := w.node(id)
					s := n.enrol()
					require.Equal(t, metadata.RestartProcessCrash, s.reg.Class)
					n.disk = n.disk.Crash(vfs.CrashKeep, 1)
				}
			}
			w.boot(A, B, C)
			for _, id := range w.ids() {
				require.Equal(t, metadata.RestartProcessCrash, w.image().Broker(id).Class)
			}
			w.calm()
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
	t.Run("two processes on one directory", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			committed(t, w, 1)
			_, err := logstore.OpenDir(w.node(A).fault, "/data", logstore.DirOptions{NodeID: A, BootID: "boot", Now: w.clock})
			require.ErrorIs(t, err, vfs.ErrLocked)
			committed(t, w, 1)
		})
	})
}
