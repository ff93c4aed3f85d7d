package metadata

import (
	"bytes"
	"reflect"
	"testing"
)

func TestDescriptionTagsComeBackAsTheyWent(t *testing.T) {
	n := NodeInfo{State: NodeDraining, Voter: true, Replicas: 12, Leaders: 4, Rack: "r1", Version: "v0.1.0", MinLevel: 1, MaxLevel: 2, Level: 1}
	if got, err := DecodeNodeInfo(n.Encode()); err != nil || got != n {
		t.Errorf("got %+v, %v", got, err)
	}
	p := PartitionInfo{
		PartitionEpoch: 7, MinISR: 2, Rule: RuleISRToQuorum, Durability: DurabilityMemory, Recovery: RecoverManual,
		Present: []int32{1, 2}, NewReplicas: []int32{1, 4}, Adding: []int32{5}, Trusted: []int32{1, 2}, LastLeader: NoNode,
		BeginPE: 6, LossEpoch: 3, Safety: Offline,
	}
	if got, err := DecodePartitionInfo(p.Encode()); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, b := range [][]byte{nil, {}, {0, '{', '}'}, {wireVersion}, {wireVersion, '['}} {
		if _, err := DecodeNodeInfo(b); err == nil {
			t.Errorf("%v was read", b)
		}
	}
}

func FuzzDecodeNodeInfo(f *testing.F) {
	f.Add((&NodeInfo{State: NodeAlive, Replicas: 1}).Encode())
	f.Add([]byte{wireVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := DecodeNodeInfo(b)
		if err != nil {
			return
		}
		if again, err := DecodeNodeInfo(n.Encode()); err != nil || !reflect.DeepEqual(again, n) {
			t.Errorf("%+v came back as %+v, %v", n, again, err)
		}
	})
}

func FuzzDecodePartitionInfo(f *testing.F) {
	f.Add((&PartitionInfo{PartitionEpoch: 3, Rule: RuleQuorum, Trusted: []int32{1}}).Encode())
	f.Add([]byte{wireVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePartitionInfo(b)
		if err != nil {
			return
		}
		if again, err := DecodePartitionInfo(p.Encode()); err != nil || len(again.Trusted) != len(p.Trusted) || again.Rule != p.Rule {
			t.Errorf("%+v came back as %+v, %v", p, again, err)
		}
	})
}

func FuzzDecodeCopyPlace(f *testing.F) {
	f.Add(CopyPlace{Flushed: -1, LogStart: 5}.Encode())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCopyPlace(b)
		if err == nil && !bytes.Equal(c.Encode(), b) {
			t.Errorf("%v came back as %v", b, c.Encode())
		}
	})
}

func TestAPartitionIsDescribedWithWhoMayVoteAndWhatIsUnderWay(t *testing.T) {
	w, p := abcOf(t, RuleQuorum, DurabilityMemory, 2)
	w.joint(p, a, b, d)
	w.restart(b, losePower)
	r := w.at(p)
	want := PartitionInfo{
		PartitionEpoch: r.PartitionEpoch, MinISR: 2, Rule: RuleQuorum, Durability: DurabilityMemory, Recovery: RecoverWaitAll, BeginPE: r.BeginPE,
		Present: []int32{a, b, c}, NewReplicas: []int32{a, b, d}, Trusted: []int32{a, c, d}, LastLeader: a, Safety: Online,
	}
	if got := w.s.Image().PartitionInfo(r); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	w.restart(a, losePower)
	if got := w.s.Image().PartitionInfo(w.at(p)); got.LastLeader != NoNode || got.Safety != OfflineUnsafe {
		t.Errorf("A lost power, and B too: %+v", got)
	}
}
