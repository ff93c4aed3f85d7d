package metadata

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/record"
)

// chaos draws commands as brokers, controllers and clients send them: in time, late, twice, and with what was true before.
type chaos struct {
	*world
	rng     *rand.Rand
	sent    []Command
	held    []PartitionChange // proposals under way
	holders map[record.PartitionID]map[int32]bool
	fresh   map[record.PartitionID][]BrokerEpoch // members that the accepted proposal of this command may count on
	serial  int
}

// newChaosOf draws what a level allows: from level 2 on also elections by reports and live changes.
func newChaosOf(t tb, level int32, seed uint64) *chaos {
	c := &chaos{world: newWorldOf(t, level, 1, 2, 3), rng: rand.New(rand.NewPCG(seed, 88)), holders: map[record.PartitionID]map[int32]bool{}}
	c.topic("a", 2, []int32{1, 2, 3}, []int32{2, 3, 1})
	if level >= QuorumLevel {
		c.topicOf("q", RuleQuorum, DurabilityMemory, 2, []int32{1, 2, 3}, []int32{3, 2, 1})
	}
	c.watch(&CreateTopics{}, Result{})
	return c
}

// draw gives 0 to most.
func (c *chaos) draw(most int) int { return c.rng.IntN(most + 1) }

func (c *chaos) chance(in int) bool { return c.rng.IntN(in) == 0 }

func (c *chaos) broker() int32 { return int32(1 + c.draw(3)) }

func (c *chaos) partition() *Partition {
	var all []*Partition
	for t := range c.s.Image().Topics() {
		all = append(all, t.Partitions...)
	}
	if len(all) == 0 {
		return nil
	}
	return all[c.draw(len(all)-1)]
}

// somebody gives a broker under its present epoch, or rarely under an old one.
func (c *chaos) somebody() BrokerEpoch {
	b := c.epoch(c.broker())
	if c.chance(12) {
		b.Epoch--
	}
	return b
}

// step draws one command and applies it.
func (c *chaos) step() (Command, Result) {
	cmd := c.command()
	c.sent = append(c.sent, cmd)
	c.fresh = c.trustworthy(cmd)
	r := c.apply(cmd)
	c.watch(cmd, r)
	return cmd, r
}

func (c *chaos) command() Command {
	c.serial++
	p := c.partition()
	if p == nil {
		return c.newTopic()
	}
	if c.s.Image().Level() >= QuorumLevel && c.chance(2) {
		return c.liveChange(p)
	}
	switch kind := c.draw(33); {
	case kind < 5:
		return c.registration()
	case kind < 9:
		return c.fencing()
	case kind < 15:
		return &UnfenceBroker{Broker: c.somebody()}
	case kind < 21:
		return c.proposals(p)
	case kind < 23:
		return c.election(p)
	case kind < 26:
		return c.unsafe()
	case kind < 27:
		return &ReplicaDamaged{Broker: c.somebody(), Partitions: []record.PartitionID{p.ID}}
	case kind < 29:
		return &SetMinISR{Partition: p.ID, PartitionEpoch: p.PartitionEpoch - int32(c.draw(8)/8), MinISR: int32(c.draw(3))}
	case kind < 30:
		return c.certification(p)
	case kind < 31:
		return c.newTopic()
	case kind < 32:
		return c.rare(p)
	}
	if len(c.sent) == 0 {
		return c.newTopic()
	}
	return c.sent[c.draw(len(c.sent)-1)]
}

func (c *chaos) registration() Command {
	b := c.broker()
	r := &RegisterBroker{Broker: Broker{ID: b, Incarnation: fmt.Sprint("i", c.serial), DirectoryID: fmt.Sprint("d", b), MinLevel: 1, MaxLevel: c.s.Image().Level(), Version: "x"}, BootOK: true}
	if last := c.run[b]; last != nil {
		r.Broker.DirectoryID = last.Broker.DirectoryID
		r.Earlier = []EarlierIncarnation{{ID: last.Broker.Incarnation, SameBoot: true}}
	}
	switch c.draw(7) {
	case 0:
		losePower(r)
	case 1:
		r.Earlier = nil
	case 2:
		r.Broker.DirectoryID = fmt.Sprint("d", c.serial)
	case 3, 4:
		r.Clean = true
	}
	return r
}

func (c *chaos) fencing() Command {
	f := &FenceBrokers{Reason: "chaos", Draining: c.chance(4)}
	for range 1 + c.draw(2) {
		f.Brokers = append(f.Brokers, c.somebody())
	}
	return f
}

func (c *chaos) proposals(p *Partition) Command {
	if len(c.held) > 0 && c.chance(3) {
		return &AlterPartitions{Changes: []PartitionChange{c.held[max(0, len(c.held)-1-c.draw(4))]}}
	}
	isr := []int32{p.Leader}
	for _, id := range p.Replicas {
		if id != p.Leader && c.chance(2) {
			isr = append(isr, id)
		}
	}
	change := c.proposal(p.ID, isr...)
	if c.chance(3) {
		c.held = append(c.held, change)
	}
	if c.chance(12) {
		change.ISR[len(change.ISR)-1].Epoch--
	}
	return &AlterPartitions{Changes: []PartitionChange{change}}
}

func (c *chaos) election(p *Partition) Command {
	return &Elect{Elections: []Election{{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch - int32(c.draw(8)/8), Leader: c.broker()}}}
}

func (c *chaos) unsafe() Command {
	var all []*Partition
	for p := range c.s.Image().Leaderless() {
		all = append(all, p)
	}
	if len(all) == 0 {
		return &UnfenceBroker{Broker: c.somebody()}
	}
	p := all[c.draw(len(all)-1)]
	u := UnsafeElection{Partition: p.ID, Epoch: p.LeaderEpoch, Forced: c.chance(3)}
	for _, id := range p.Replicas {
		if !c.chance(6) {
			u.Reports = append(u.Reports, ReplicaReport{Broker: c.epoch(id), LastEpoch: int32(c.draw(2)), End: int64(c.draw(2))})
		}
	}
	best, _ := ChooseUnsafe(p, u.Reports, c.s.Image().Broker)
	u.Leader = best.Broker
	if u.Forced {
		u.Leader = c.somebody()
	}
	return &UnsafeElect{Elections: []UnsafeElection{u}}
}

func (c *chaos) certification(p *Partition) Command {
	return &Certify{Items: []Certification{{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, LeaderBrokerEpoch: p.LeaderBrokerEpoch, Broker: c.somebody()}}}
}

func (c *chaos) newTopic() Command {
	name := []string{"a", "a.b", "a_b", "", "d"}[c.draw(4)]
	n := NewTopic{ID: topicID(fmt.Sprint(name, c.serial)), Name: name, MinISR: int32(c.draw(2)),
		Recovery: []RecoveryPolicy{RecoverWaitAll, RecoverManual, RecoverProactive}[c.draw(2)]}
	for range 1 + c.draw(2) {
		n.Assignment = append(n.Assignment, shuffled(c.rng)[:1+c.draw(3)])
	}
	return &CreateTopics{Topics: []NewTopic{n}, Request: c.request()}
}

func (c *chaos) request() (id RequestID) {
	id[0], id[1] = byte(c.serial), byte(c.serial>>8)
	if c.chance(8) {
		id[0]--
	}
	return id
}

func (c *chaos) rare(p *Partition) Command {
	top := c.s.Image().TopicByID(p.ID.Topic)
	switch c.draw(6) {
	case 0:
		return &DeleteTopics{Topics: []record.TopicID{top.ID, {}}, Request: c.request()}
	case 1:
		return &CreatePartitions{Topics: []MorePartitions{{Topic: top.ID, First: int32(len(top.Partitions)), Assignment: [][]int32{slices.Clone(p.Replicas)}}}, Request: c.request()}
	case 2:
		return &AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: top.ID, Set: map[string]string{"retention.ms": fmt.Sprint(c.serial)}, Remove: []string{"flush.ms"}, MinISR: int32(c.draw(3)), Recovery: RecoverProactive}}, Request: c.request()}
	case 3:
		return &AllocateProducerIDs{Broker: c.somebody(), Count: int32(c.draw(1000))}
	case 4:
		return &UnregisterBroker{ID: c.broker(), Request: c.request()}
	case 5:
		return &SetLevel{Level: int32(c.draw(2)), Request: c.request()}
	}
	return &SetCluster{ClusterID: "c", Level: 1}
}

// trustworthy gives the members that a leader really knows to be complete, by partition: those of proposals that are made
// of what is true now.
func (c *chaos) trustworthy(cmd Command) map[record.PartitionID][]BrokerEpoch {
	out := map[record.PartitionID][]BrokerEpoch{}
	alter, ok := cmd.(*AlterPartitions)
	if !ok {
		return out
	}
	for _, change := range alter.Changes {
		p := c.at(change.Partition)
		if p != nil && p.PartitionEpoch == change.PartitionEpoch && p.Leader == change.Leader {
			for _, m := range change.ISR {
				if m == c.epoch(m.ID) {
					out[p.ID] = append(out[p.ID], m)
				}
			}
		}
	}
	return out
}

// watch keeps, for every partition, who holds all that may have been committed, at its worst: whenever the ISR is large
// enough, something was committed that only its members hold. Whoever may be elected must be one of them (I3, I8).
func (c *chaos) watch(cmd Command, r Result) {
	if reg, ok := cmd.(*RegisterBroker); ok && c.s.Image().Level() >= QuorumLevel {
		if r.Err == nil && r.Index == c.index {
			c.forget(reg, r)
		}
	}
	if c.s.Image().Level() >= QuorumLevel {
		return // logs_test.go says who holds what there
	}
	switch cmd := cmd.(type) {
	case *RegisterBroker:
		if r.Err == nil && r.Index == c.index {
			c.forget(cmd, r)
		}
	case *ReplicaDamaged:
		for i, id := range cmd.Partitions {
			if r.Err == nil && r.Items[i] == nil {
				delete(c.holders[id], cmd.Broker.ID)
			}
		}
	case *AlterPartitions:
		for i, change := range cmd.Changes {
			for _, m := range c.fresh[change.Partition] {
				if r.Items[i] == nil {
					c.holders[change.Partition][m.ID] = true
				}
			}
		}
	case *UnsafeElect:
		for i, e := range cmd.Elections {
			if r.Items[i] == nil {
				c.holders[e.Partition] = map[int32]bool{e.Leader.ID: true}
			}
		}
	}
	live := map[record.PartitionID]map[int32]bool{}
	for t := range c.s.Image().Topics() {
		for _, p := range t.Partitions {
			live[p.ID] = c.commitAll(p)
		}
	}
	c.holders = live
}

// forget takes away what a restart lost.
func (c *chaos) forget(cmd *RegisterBroker, r Result) {
	if c.s.Image().BrokerEpoch(cmd.Broker.ID) == int64(r.Index) {
		c.run[cmd.Broker.ID] = cmd
	}
	if r.Epoch != int64(r.Index) || r.Class == RestartClean || r.Class == RestartProcessCrash {
		return
	}
	for _, h := range c.holders {
		delete(h, cmd.Broker.ID)
	}
}

func (c *chaos) commitAll(p *Partition) map[int32]bool {
	h := c.holders[p.ID]
	if h == nil {
		h = map[int32]bool{}
		for _, id := range p.ISR {
			h[id] = true
		}
	}
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		must(c.t, h[id], "node %d may be elected and lacks committed records; holders %v of %+v", id, h, p)
	}
	if p.Leader != NoNode && int32(len(p.ISR)) >= p.MinISR {
		h = map[int32]bool{}
		for _, id := range p.ISR {
			h[id] = true
		}
	}
	return h
}

func shuffled(rng *rand.Rand) []int32 {
	ids := []int32{1, 2, 3, 4}
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

var seedFlag = flag.Uint64("seed", 0, "run the random logs of this seed only")

// seeds runs a test for some seeds, each of which it names if it fails.
func seeds(t *testing.T, count int, run func(t *testing.T, seed uint64)) {
	if *seedFlag != 0 {
		run(t, *seedFlag)
		return
	}
	first := uint64(time.Now().UnixNano())
	for seed := first; seed < first+uint64(count); seed++ {
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { run(t, seed) }) {
			return
		}
	}
}

// TestNobodyIsElectedWhoMayLackCommittedRecords runs random logs; world checks I1 and the shape of records after every
// command.
func TestNobodyIsElectedWhoMayLackCommittedRecords(t *testing.T) {
	reached := runChaos(t, MinLevel, 120, 150)
	requireReached(t, reached, &AlterPartitions{}, &Elect{}, &UnsafeElect{}, &FenceBrokers{}, &UnfenceBroker{}, &RegisterBroker{}, &ReplicaDamaged{},
		&SetMinISR{}, &Certify{}, &CreateTopics{}, &DeleteTopics{}, &CreatePartitions{})
}

// TestRecordsKeepTheirShapeThroughEveryCommand does so with everything that level 2 knows.
func TestRecordsKeepTheirShapeThroughEveryCommand(t *testing.T) {
	reached := runChaos(t, QuorumLevel, 150, 250)
	requireReached(t, reached, &AlterPartitions{}, &UnsafeElect{}, &RegisterBroker{}, &ReplicaDamaged{}, &SetMinISR{}, &Certify{}, &CreatePartitions{},
		&BeginElection{}, &ElectReported{}, &Reassign{}, &EnterJoint{}, &FinishChange{}, &AlterTopicConfigs{})
}

// runChaos counts what was accepted and refused, by kind of command, and what changes were finished.
func runChaos(t *testing.T, level int32, count, steps int) map[string]int {
	reached := map[string]int{}
	seeds(t, count, func(t *testing.T, seed uint64) {
		c := newChaosOf(t, level, seed)
		for range steps {
			cmd, r := c.step()
			for _, item := range append(r.Items, r.Err) {
				reached[fmt.Sprintf("%T %v", cmd, item == nil)]++
			}
		}
	})
	return reached
}

func requireReached(t *testing.T, reached map[string]int, kinds ...Command) {
	t.Helper()
	for _, cmd := range kinds {
		for _, accepted := range []bool{true, false} {
			what := fmt.Sprintf("%T %v", cmd, accepted)
			require.True(t, reached[what] > 0 || *seedFlag != 0, "never happened: %s", what)
		}
	}
}

// TestARestoredStateGoesOnAsTheOneThatWasSaved: a snapshot at any moment and the rest of the log give what the whole log
// gives, answers included (field report 88); and so does a second node that only has the log's bytes.
func TestARestoredStateGoesOnAsTheOneThatWasSaved(t *testing.T) {
	for level := MinLevel; level <= LatestLevel; level++ {
		seeds(t, 40, func(t *testing.T, seed uint64) {
			c := newChaosOf(t, level, seed)
			restored := reload(t, c.s)
			follower := reload(t, c.s)
			for range 80 {
				if c.chance(8) {
					restored = reload(t, c.s)
				}
				cmd, want := c.step()
				for _, s := range []*State{restored, follower} {
					got, _ := s.Apply(c.index, recode(t, cmd))
					require.Equal(t, describe(want), describe(got))
				}
			}
			final := encoded(t, c.s)
			require.Equal(t, string(final), string(encoded(t, restored)))
			require.Equal(t, string(final), string(encoded(t, follower)))
		})
	}
}

func reload(t tb, s *State) *State {
	t.Helper()
	r, err := DecodeState(bytes.NewReader(encoded(t, s.Capture())))
	require.NoError(t, err)
	checkInvariants(t, Delta{Old: r.Image(), New: r.Image(), Full: true})
	return r
}

func recode(t tb, cmd Command) Command {
	t.Helper()
	b, err := EncodeCommand(cmd)
	require.NoError(t, err)
	out, err := DecodeCommand(b)
	require.NoError(t, err)
	return out
}

func describe(r Result) string {
	return fmt.Sprintf("%+v | %v | %v", r, r.Err, errors.Join(r.Items...))
}
