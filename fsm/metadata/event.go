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

// lossDetail names the chosen end and what every replica reported.
func lossDetail(u *UnsafeElection) string {
	var b strings.Builder
	for _, r := range u.Reports {
		if r.Broker.ID == u.Leader.ID {
			fmt.Fprintf(&b, "broker %d leads from end %d", r.Broker.ID, r.End)
		}
	}
	for _, r := range u.Reports {
		fmt.Fprintf(&b, "; broker %d: last epoch %d, end %d, high watermark %d", r.Broker.ID, r.LastEpoch, r.End, r.HW)
	}
	return b.String()
}
