package partition

import (
	"encoding/json"
	"fmt"
	"time"
)

// latencyVersion is the first byte of an encoded AckLatency.
const latencyVersion = 1

// wireLatency is an AckLatency with its bounds, so that a reader needs no table of its own. Times are microseconds.
type wireLatency struct {
	Bounds      []int64         `json:"bounds"`
	Leader      wireHistogram   `json:"leader"`
	Quorum      wireHistogram   `json:"quorum"`
	ISR         wireHistogram   `json:"isr"`
	CompletedBy map[int32]int64 `json:"completedBy,omitempty"`
	Skipped     int64           `json:"skipped"`
	Raised      int64           `json:"raised"`
}

type wireHistogram struct {
	Counts []int64 `json:"counts"`
	Sum    int64   `json:"sum"`
}

// EncodeAckLatency gives the body of the private field of DescribeQuorum: a version byte and JSON.
func EncodeAckLatency(a *AckLatency) []byte {
	w := wireLatency{CompletedBy: a.CompletedBy, Skipped: a.Skipped, Raised: a.Raised}
	for _, b := range AckBounds {
		w.Bounds = append(w.Bounds, b.Microseconds())
	}
	w.Leader, w.Quorum, w.ISR = wireOf(&a.Leader), wireOf(&a.Quorum), wireOf(&a.ISR)
	body, err := json.Marshal(w)
	if err != nil {
		panic(err) // structs of plain values always encode
	}
	return append([]byte{latencyVersion}, body...)
}

func wireOf(h *AckHistogram) wireHistogram {
	return wireHistogram{Counts: h.Counts[:], Sum: h.Sum.Microseconds()}
}

// DecodeAckLatency reads what EncodeAckLatency wrote by a node of the same bounds, else ErrBadTag.
func DecodeAckLatency(b []byte) (AckLatency, error) {
	var w wireLatency
	if len(b) == 0 || b[0] < latencyVersion {
		return AckLatency{}, ErrBadTag
	}
	if err := json.Unmarshal(b[1:], &w); err != nil {
		return AckLatency{}, fmt.Errorf("%w: %w", ErrBadTag, err)
	}
	a := AckLatency{CompletedBy: w.CompletedBy, Skipped: w.Skipped, Raised: w.Raised}
	for _, h := range []struct {
		from *wireHistogram
		to   *AckHistogram
	}{{&w.Leader, &a.Leader}, {&w.Quorum, &a.Quorum}, {&w.ISR, &a.ISR}} {
		if len(h.from.Counts) != len(h.to.Counts) {
			return AckLatency{}, ErrBadTag
		}
		copy(h.to.Counts[:], h.from.Counts)
		h.to.Sum = time.Duration(h.from.Sum) * time.Microsecond
	}
	return a, nil
}
