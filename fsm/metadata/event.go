package metadata

import (
	"fmt"
	"strings"

	"cordwood/logstore/record"
)

// The kinds of events.
const (
	EventDataLoss           = "DataLossPossible"       // an unsafe election: records that were acknowledged may be gone
	EventPartitionOffline   = "PartitionOffline"       // no leader; brokers that have everything must come back
	EventPartitionUnsafe    = "PartitionOfflineUnsafe" // no leader, and nobody is known to have everything
	EventReplicaDamaged     = "ReplicaDamaged"
	EventBrokerRegistered   = "BrokerRegistered"
	EventBrokerFenced       = "BrokerFenced"
	EventBrokerUnfenced     = "BrokerUnfenced"
	EventBrokerDraining     = "BrokerDraining"
	EventBrokerUnregistered = "BrokerUnregistered"
	EventLevel              = "LevelFinalised"

	EventRuleBegun          = "RuleChangeBegun"
	EventRuleFinished       = "RuleChangeFinished"
	EventRuleAborted        = "RuleChangeAborted"
	EventDurabilityBegun    = "DurabilityChangeBegun"
	EventDurabilityFinished = "DurabilityChangeFinished"
	EventDurabilityAborted  = "DurabilityChangeAborted"
	EventReassignBegun      = "ReassignmentBegun"
	EventReassignJoint      = "ReassignmentJoint" // present and new replicas are both in force
	EventReassigned         = "ReassignmentFinished"
	EventReassignCancelled  = "ReassignmentCancelled"
)

// Event is something that the apply of a command decided and operators should see.
type Event struct {
	Kind      string             `json:"kind"`
	Broker    int32              `json:"broker"` // NoNode unless the event is about a broker or one of its replicas
	Partition record.PartitionID `json:"partition"`
	Topic     string             `json:"topic"` // empty unless the event is about a partition
	Detail    string             `json:"detail"`
	Unsafe    *UnsafeElection    `json:"unsafe,omitempty"` // of DataLossPossible
}

// brokerEvent notes something about a broker.
func (s *State) brokerEvent(kind string, id int32, format string, args ...any) {
	s.pending.events = append(s.pending.events, Event{Kind: kind, Broker: id, Detail: fmt.Sprintf(format, args...)})
}

// partitionEvent notes something about a partition.
func (s *State) partitionEvent(kind string, p *Partition, broker int32, format string, args ...any) {
	e := Event{Kind: kind, Broker: broker, Partition: p.ID, Detail: fmt.Sprintf(format, args...)}
	if t := s.head.TopicByID(p.ID.Topic); t != nil {
		e.Topic = t.Name
	}
	s.pending.events = append(s.pending.events, e)
}

// Lost gives the offsets that an unsafe election says may be gone: all from first on. Those below counted were committed
// for certain, as far as any replica remembers; the memory of what was committed may be older than the loss, so counted
// is a lower bound, and is first when nobody remembers more.
func (u *UnsafeElection) Lost() (first, counted int64) {
	for _, r := range u.Reports {
		if r.Broker == u.Leader {
			first = r.End
		}
	}
	counted = first
	for _, r := range u.Reports {
		counted = max(counted, r.HW)
	}
	return first, counted
}

// lossDetail names the offsets that may be gone, and what every replica reported.
func lossDetail(u *UnsafeElection) string {
	var b strings.Builder
	first, counted := u.Lost()
	fmt.Fprintf(&b, "broker %d leads from end %d: records at offset %d and above may be gone", u.Leader.ID, first, first)
	if counted > first {
		fmt.Fprintf(&b, ", and %d to %d were committed", first, counted-1)
	}
	for _, r := range u.Reports {
		fmt.Fprintf(&b, "; broker %d: last epoch %d, end %d, high watermark %d", r.Broker.ID, r.LastEpoch, r.End, r.HW)
	}
	return b.String()
}
