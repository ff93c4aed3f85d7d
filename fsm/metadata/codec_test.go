package metadata

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cordwood/logstore/record"
)

var write = flag.Bool("write", false, "write the golden files of the present formats instead of comparing with them")

// drawn makes any value of a command type.
func drawn[T any](t *rapid.T) *T {
	v := rapid.Make[T]().Draw(t, "command")
	return &v
}

func drawCommand(t *rapid.T, kind Kind) Command {
	switch kind {
	case KindSetCluster:
		return drawn[SetCluster](t)
	case KindRegisterBroker:
		return drawn[RegisterBroker](t)
	case KindFenceBrokers:
		return drawn[FenceBrokers](t)
	case KindUnfenceBroker:
		return drawn[UnfenceBroker](t)
	case KindUnregisterBroker:
		return drawn[UnregisterBroker](t)
	case KindCreateTopics:
		return drawn[CreateTopics](t)
	case KindDeleteTopics:
		return drawn[DeleteTopics](t)
	case KindCreatePartitions:
		return drawn[CreatePartitions](t)
	case KindAlterTopicConfigs:
		return drawn[AlterTopicConfigs](t)
	case KindAlterPartitions:
		return drawn[AlterPartitions](t)
	case KindElect:
		return drawn[Elect](t)
	case KindUnsafeElect:
		return drawn[UnsafeElect](t)
	case KindCertify:
		return drawn[Certify](t)
	case KindReplicaDamaged:
		return drawn[ReplicaDamaged](t)
	case KindSetMinISR:
		return drawn[SetMinISR](t)
	case KindAllocateProducerID:
		return drawn[AllocateProducerIDs](t)
	case KindSetLevel:
		return drawn[SetLevel](t)
	case KindBeginElection:
		return drawn[BeginElection](t)
	case KindElectReported:
		return drawn[ElectReported](t)
	case KindReassign:
		return drawn[Reassign](t)
	case KindEnterJoint:
		return drawn[EnterJoint](t)
	case KindFinishChange:
		return drawn[FinishChange](t)
	}
	t.Fatalf("kind %d has no generator", kind)
	return nil
}

func allKinds() []Kind {
	var all []Kind
	for k := range commandKinds {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func TestCommandsComeBackAsTheyWereEncoded(t *testing.T) {
	for _, kind := range allKinds() {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				cmd := drawCommand(t, kind)
				require.Equal(t, kind, cmd.Kind())
				first, err := EncodeCommand(cmd)
				require.NoError(t, err)
				got, err := DecodeCommand(first)
				require.NoError(t, err)
				require.IsType(t, cmd, got)
				again, err := EncodeCommand(got)
				require.NoError(t, err)
				require.Equal(t, string(first), string(again))
			})
		})
	}
}

func TestWhatANewerVersionWroteIsToldFromDamage(t *testing.T) {
	good, err := EncodeCommand(&SetLevel{Level: 1})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"format":        {func(b []byte) []byte { b[0] = 2; return b }, ErrNewerVersion},
		"kind":          {func(b []byte) []byte { b[1] = 0x7f; return b }, ErrNewerVersion},
		"version":       {func(b []byte) []byte { b[4] = 2; return b }, ErrNewerVersion},
		"format 0":      {func(b []byte) []byte { b[0] = 0; return b }, ErrCorruptCommand},
		"version 0":     {func(b []byte) []byte { b[4] = 0; return b }, ErrCorruptCommand},
		"unknown field": {func(b []byte) []byte { return append(b[:5], `{"level":1,"later":2}`...) }, ErrCorruptCommand},
		"two values":    {func(b []byte) []byte { return append(b, "{}"...) }, ErrCorruptCommand},
		"cut":           {func(b []byte) []byte { return b[:len(b)-1] }, ErrCorruptCommand},
		"no header":     {func(b []byte) []byte { return b[:4] }, ErrCorruptCommand},
		"nothing":       {func([]byte) []byte { return nil }, ErrCorruptCommand},
	} {
		_, err := DecodeCommand(c.change(slices.Clone(good)))
		require.ErrorIs(t, err, c.want, name)
	}
	_, err = DecodeCommand([]byte{1, 0x7f, 0, 0, 1})
	require.ErrorContains(t, err, "written by a newer version of Cordwood")
}

// samples is one command of every kind, with every field set, by the level that first wrote it so.
func samples(level int32) []Command {
	if level == QuorumLevel {
		return quorumSamples()
	}
	id := record.TopicID{1, 2, 3}
	p := record.PartitionID{Topic: id, Partition: 4}
	be := BrokerEpoch{ID: 2, Epoch: 17}
	req := RequestID{0xab}
	return []Command{
		&SetCluster{ClusterID: "c", Level: 1},
		&RegisterBroker{Broker: Broker{ID: 2, Incarnation: "i", DirectoryID: "d", Rack: "r", Listeners: map[string]Endpoint{"external": {Host: "n2", Port: 9092}}, RaftAddress: "n2:9093", MinLevel: 1, MaxLevel: 1, Version: "v"},
			Earlier: []EarlierIncarnation{{ID: "h", SameBoot: true}}, Clean: true, Mismatch: true, BootOK: true},
		&FenceBrokers{Brokers: []BrokerEpoch{be}, Draining: true, Reason: "why"},
		&UnfenceBroker{Broker: be},
		&UnregisterBroker{ID: 2, Request: req},
		&CreateTopics{Topics: []NewTopic{{ID: id, Name: "n", Configs: map[string]string{"k": "v"}, Assignment: [][]int32{{1, 2}}, Rule: RuleISR, Durability: DurabilityMemory, Recovery: RecoverManual, MinISR: 1}}, Request: req},
		&DeleteTopics{Topics: []record.TopicID{id}, Request: req},
		&CreatePartitions{Topics: []MorePartitions{{Topic: id, First: 1, Assignment: [][]int32{{2, 1}}}}, Request: req},
		&AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: id, Set: map[string]string{"k": "v"}, Remove: []string{"x"}, MinISR: 2, Recovery: RecoverProactive}}, Request: req},
		&AlterPartitions{Changes: []PartitionChange{{Partition: p, Leader: 2, LeaderBrokerEpoch: 17, LeaderEpoch: 3, PartitionEpoch: 5, ISR: []BrokerEpoch{be}}}},
		&Elect{Elections: []Election{{Partition: p, LeaderEpoch: 3, PartitionEpoch: 5, Leader: 2}}},
		&UnsafeElect{Elections: []UnsafeElection{{Partition: p, Epoch: 3, Leader: be, Reports: []ReplicaReport{{Broker: be, LastEpoch: 2, End: 9, HW: 8}}, Forced: true}}},
		&Certify{Items: []Certification{{Partition: p, LeaderEpoch: 3, LeaderBrokerEpoch: 17, Broker: be, JoinPE: 1}}},
		&ReplicaDamaged{Broker: be, Partitions: []record.PartitionID{p}},
		&SetMinISR{Partition: p, PartitionEpoch: 5, MinISR: 2},
		&AllocateProducerIDs{Broker: be, Count: 1000},
		&SetLevel{Level: 1, Request: req},
	}
}

// quorumSamples is what level 2 brought: new kinds, and new fields in newer versions of old ones.
func quorumSamples() []Command {
	id := record.TopicID{1, 2, 3}
	p := record.PartitionID{Topic: id, Partition: 4}
	be := BrokerEpoch{ID: 2, Epoch: 17}
	req := RequestID{0xab}
	return []Command{
		&CreateTopics{Topics: []NewTopic{{ID: id, Name: "n", Assignment: [][]int32{{1, 2}}, Rule: RuleQuorum, Durability: DurabilityDisk, Recovery: RecoverManual, MinISR: 1, Forced: true}}, Request: req},
		&AlterTopicConfigs{Topics: []TopicConfigChange{{Topic: id, Rule: RuleQuorum, Durability: DurabilityDisk, Forced: true}}, Request: req},
		&BeginElection{Elections: []ElectionStart{{Partition: p, LeaderEpoch: 3, Leader: 2}}},
		&ElectReported{Elections: []ReportedElection{{Partition: p, LeaderEpoch: 3, Leader: be, Voters: []ReplicaReport{{Broker: be, LastEpoch: 2, End: 9, HW: 8}}}}},
		&Reassign{Items: []Reassignment{{Partition: p, PartitionEpoch: 5, Target: []int32{2, 3}, Forced: true}, {Partition: p, PartitionEpoch: AnyPartitionEpoch}}, Request: req},
		&EnterJoint{Items: []JointEntry{{Partition: p, PartitionEpoch: 5}}},
		&FinishChange{Items: []Finish{{Partition: p, Leader: 2, LeaderBrokerEpoch: 17, LeaderEpoch: 3, PartitionEpoch: 5, Point: 9, Evidence: []Evidence{{Broker: be, Offset: 10}}}}},
	}
}

// TestCommandsOfEveryLandedFormatAreRead compares with files that never change: a cluster's log may hold any of it, and a
// binary of the level reads no more. A new field or kind gets a new version and a new file.
func TestCommandsOfEveryLandedFormatAreRead(t *testing.T) {
	seen := map[Kind]bool{}
	for level := MinLevel; level <= LatestLevel; level++ {
		file := fmt.Sprintf("testdata/commands-%d.txt", level)
		var lines []string
		for _, cmd := range samples(level) {
			b, err := EncodeCommand(cmd)
			require.NoError(t, err)
			require.Equal(t, level, NeedsLevel(cmd))
			lines = append(lines, hex.EncodeToString(b[:commandHeader])+" "+string(b[commandHeader:]))
		}
		if *write {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		}
		golden := commandFile(t, file)
		require.Equal(t, golden, lines)
		for _, line := range golden {
			seen[readLine(t, line).Kind()] = true
		}
	}
	for _, k := range allKinds() {
		require.True(t, seen[k], "kind %d is in no file", k)
	}
}

// commandFile gives the lines of a file of commands: the header in hexadecimal digits, then the body.
func commandFile(t testing.TB, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func readLine(t testing.TB, line string) Command {
	t.Helper()
	head, body, _ := strings.Cut(line, " ")
	b, err := hex.DecodeString(head)
	require.NoError(t, err)
	cmd, err := DecodeCommand(append(b, body...))
	require.NoError(t, err, line)
	return cmd
}

// TestALogOfLevelOneGivesWhatABinaryOfLevelOneMadeOfIt replays a log that a binary of level 1 wrote, with registrations,
// losses, elections, damage and refusals, and compares the state, byte for byte, with what that binary had then: while
// both kinds of nodes are in one cluster their metadata may not differ.
func TestALogOfLevelOneGivesWhatABinaryOfLevelOneMadeOfIt(t *testing.T) {
	before, err := os.ReadFile("testdata/level-1-before")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/level-1-after")
	require.NoError(t, err)
	s, err := DecodeState(bytes.NewReader(before))
	require.NoError(t, err)
	for _, line := range commandFile(t, "testdata/level-1-log.txt") {
		cmd := readLine(t, line)
		again, err := EncodeCommand(cmd)
		require.NoError(t, err)
		require.Equal(t, line, hex.EncodeToString(again[:commandHeader])+" "+string(again[commandHeader:]))
		s.Apply(s.Index()+1, cmd)
	}
	require.Equal(t, string(want), string(encoded(t, s)))
}

func FuzzDecodeCommand(f *testing.F) {
	for level := MinLevel; level <= LatestLevel; level++ {
		for _, cmd := range samples(level) {
			b, err := EncodeCommand(cmd)
			require.NoError(f, err)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cmd, err := DecodeCommand(b)
		if err != nil {
			return
		}
		out, err := EncodeCommand(cmd)
		require.NoError(t, err)
		again, err := DecodeCommand(out)
		require.NoError(t, err)
		twice, err := EncodeCommand(again)
		require.NoError(t, err)
		require.Equal(t, string(out), string(twice))
		for level := MinLevel; level <= LatestLevel; level++ { // whatever it says, the invariants hold
			w := newWorldOf(t, level, 1, 2, 3)
			w.topic("a", 2, []int32{1, 2, 3})
			w.apply(cmd)
		}
	})
}
