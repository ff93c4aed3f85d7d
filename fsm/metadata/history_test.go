package metadata

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPartitionsPastIsToldInWords(t *testing.T) {
	first := &Partition{Replicas: []int32{1, 2, 3}, Leader: 1, ISR: []int32{1, 2, 3}, Rule: RuleISR, Durability: DurabilityMemory, Recovery: RecoverWaitAll, MinISR: 2,
		Members: []Replica{{ID: 1, Cert: 5}, {ID: 2, Cert: 6}}}
	require.Equal(t, []string{"created on 1,2,3, led by 1"}, (&Past{New: first}).Entry().Changes)

	next := first.clone()
	next.Leader, next.LeaderEpoch, next.PartitionEpoch, next.ISR, next.ELR = NoNode, 1, 1, nil, []int32{2}
	next.Rule, next.Durability, next.Recovery, next.MinISR, next.LossEpoch = RuleISRToQuorum, DurabilityDisk, RecoverManual, 1, 1
	next.Adding, next.NewReplicas, next.Replicas = []int32{4}, []int32{4, 2}, []int32{2, 1, 3}
	next.Members = []Replica{{ID: 1, Cert: -1}, {ID: 2, Cert: 9}}
	e := (&Past{Index: 7, Time: 8, Old: first, New: next, Events: []Event{{Kind: EventDataLoss, Detail: "some"}}}).Entry()
	require.Equal(t, []string{
		"leader 1 → none (epoch 0 → 1)", "in sync 1,2,3 → none", "eligible none → 2", "replicas 1,2,3 → 2,1,3", "being filled none → 4",
		"second set in force none → 4,2", "commit.rule isr → isr-to-quorum", "commit.durability memory → disk", "recovery.policy wait-all → manual",
		"min.insync.replicas 2 → 1", "the election of epoch 1 is flagged as unsafe", "node 1 is no longer known to be complete", "node 2 is certified complete",
		"DataLossPossible: some",
	}, e.Changes)
	require.EqualValues(t, 7, e.Index)
	require.Empty(t, (&Past{Old: first, New: first}).Entry().Changes)

	got, err := DecodeHistory(EncodeHistory([]HistoryEntry{e}))
	require.NoError(t, err)
	e.ISR = nil
	require.Equal(t, []HistoryEntry{e}, got)
}

func FuzzDecodeHistory(f *testing.F) {
	f.Add(EncodeHistory([]HistoryEntry{{Index: 1, Changes: []string{"x"}}}))
	f.Add([]byte{wireVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeHistory(b)
		if err != nil {
			return
		}
		if again, err := DecodeHistory(EncodeHistory(l)); err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("%+v came back as %+v, %v", l, again, err)
		}
	})
}
