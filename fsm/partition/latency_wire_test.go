package partition

import (
	"reflect"
	"testing"
	"time"
)

func TestMeasuredLatencyComesBackAsItWent(t *testing.T) {
	a := AckLatency{CompletedBy: map[int32]int64{2: 5, ByRecord: 1}, Skipped: 3, Raised: 4}
	a.Leader.Observe(time.Millisecond)
	a.Quorum.Observe(20 * time.Second)
	got, err := DecodeAckLatency(EncodeAckLatency(&a))
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v came back as %+v, %v", a, got, err)
	}
}

func FuzzDecodeAckLatency(f *testing.F) {
	f.Add(EncodeAckLatency(&AckLatency{Skipped: 1}))
	f.Add([]byte{latencyVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAckLatency(b)
		if err != nil {
			return
		}
		if again, err := DecodeAckLatency(EncodeAckLatency(&a)); err != nil || again.Leader.Counts != a.Leader.Counts || again.Raised != a.Raised {
			t.Errorf("%+v came back as %+v, %v", a, again, err)
		}
	})
}
