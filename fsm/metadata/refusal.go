package metadata

import (
	"errors"
	"fmt"
	"strings"
)

// Refusal is why a command, or one item of it, was not done: one of the sentinels, and a sentence with the facts.
type Refusal struct {
	Reason  error  // a sentinel of this package
	Message string // for people
}

func (r *Refusal) Error() string {
	if r.Message == "" {
		return r.Reason.Error()
	}
	return r.Reason.Error() + ": " + r.Message
}

// Unwrap gives the sentinel.
func (r *Refusal) Unwrap() error { return r.Reason }

// refuse makes a refusal.
func refuse(reason error, format string, args ...any) error {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// reasons numbers the sentinels in snapshots, where remembered answers are kept. Numbers are never reused.
var reasons = []struct {
	number int16
	err    error
}{
	{1, ErrTopicExists}, {2, ErrUnknownTopic}, {3, ErrUnknownTopicID}, {4, ErrInvalidTopic}, {5, ErrInvalidPartitions},
	{6, ErrInvalidReplication}, {7, ErrInvalidAssignment}, {8, ErrInvalidConfig}, {9, ErrInvalidRequest},
	{10, ErrUnknownPartition}, {11, ErrFencedLeaderEpoch}, {12, ErrInvalidUpdate}, {13, ErrIneligibleReplica},
	{14, ErrStaleBrokerEpoch}, {15, ErrBrokerNotRegistered}, {16, ErrDuplicateBroker}, {17, ErrLateIncarnation},
	{18, ErrHoldsReplicas}, {19, ErrNotEligible}, {20, ErrElectionNotNeeded}, {21, ErrLevel},
	{22, ErrNoReassignment}, {23, ErrChangeUnderWay},
}

// storedRefusal is a refusal in a snapshot; number 0 is success.
type storedRefusal struct {
	Number  int16  `json:"n,omitempty"`
	Message string `json:"m,omitempty"`
}

func storeRefusal(err error) (storedRefusal, error) {
	if err == nil {
		return storedRefusal{}, nil
	}
	for _, e := range reasons {
		if errors.Is(err, e.err) {
			message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), e.err.Error()), ": ")
			return storedRefusal{Number: e.number, Message: message}, nil
		}
	}
	return storedRefusal{}, fmt.Errorf("refusal without a number: %w", err)
}

func (s storedRefusal) load() (error, error) {
	if s.Number == 0 {
		return nil, nil
	}
	for _, e := range reasons {
		if e.number == s.Number {
			return &Refusal{Reason: e.err, Message: s.Message}, nil
		}
	}
	return nil, fmt.Errorf("refusal number %d: %w", s.Number, ErrNewerVersion)
}
