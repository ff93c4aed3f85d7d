package metadata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Promise says in words what a topic's settings mean, and what stands in their way at the moment.
type Promise struct {
	AcknowledgedWhen string `json:"acknowledgedWhen"`
	Survives         string `json:"survives"`
	BlockedBy        string `json:"blockedBy"`
}

// Sentence is the promise as one sentence.
func (p Promise) Sentence() string {
	return "acknowledged when " + p.AcknowledgedWhen + "; survives " + p.Survives + "; blocked by " + p.BlockedBy
}

// PromiseFacts is what a topic's promise is computed from.
type PromiseFacts struct {
	Rule       CommitRule
	Durability Durability
	MinISR     int32
	MinAcks    string // as min.acks: 0, 1, a number of replicas, or all
	Replicas   int    // of each partition
	// Partitions are the topic's as they are now; none for a topic that is only planned.
	Partitions []PromisePartition
}

// PromisePartition is what of one partition may block writes.
type PromisePartition struct {
	Led    bool
	Live   int // replicas whose node is alive
	InSync int
}

// MinAcksAll is the value of min.acks that asks for a commit.
const MinAcksAll = acksAll

// ParseAcks reads a canonical value of min.acks as producers number acknowledgements: -1 is all.
func ParseAcks(value string) (acks int16, ok bool) { return parseAcks(value) }

// PromiseOf computes the promise of a topic.
func PromiseOf(f PromiseFacts) Promise {
	return Promise{AcknowledgedWhen: f.acknowledged(), Survives: f.survives(), BlockedBy: f.blocked()}
}

// where names the place where a copy counts.
func (f *PromiseFacts) where() string {
	if f.Durability == DurabilityDisk || f.Durability == DurabilityMemoryToDisk {
		return "on disk"
	}
	return "in memory"
}

// commit says what a commit is.
func (f *PromiseFacts) commit() string {
	have := fmt.Sprintf("%s %s", verb(f.Replicas > 1), f.where())
	inSync := fmt.Sprintf("every in-sync replica, at least %d of %d, has it %s", f.MinISR, f.Replicas, f.where())
	quorum := fmt.Sprintf("%d of %d replicas, the fastest, have it %s", WriteQuorum(f.Replicas, f.MinISR), f.Replicas, f.where())
	switch {
	case f.Replicas <= 1:
		return "the only replica " + have
	case f.Rule == RuleISR:
		return inSync
	case f.Rule == RuleQuorum:
		return quorum
	}
	return inSync + " and " + quorum // while the rule changes
}

func verb(several bool) string {
	if several {
		return "have it"
	}
	return "has it"
}

func (f *PromiseFacts) acknowledged() string {
	s := f.commit()
	n, _ := ParseAcks(f.MinAcks)
	switch {
	case f.MinAcks == MinAcksAll:
		return s + ", whatever acks the producer asks for"
	case n >= 2:
		return fmt.Sprintf("%s (acks=all), or at least %d of %d replicas have it (any lower acks)", s, n, f.Replicas)
	case n == 1:
		return s + " (acks=all), or at least the leader has it (any lower acks)"
	}
	return s + " (acks=all), or as little as the producer asks for (acks=0, 1, 2…)"
}

// spare is how many nodes may be gone for good without loss or an end of service.
func (f *PromiseFacts) spare() int {
	inSync, quorum := int(f.MinISR)-1, min(f.Replicas-Majority(f.Replicas), WriteQuorum(f.Replicas, f.MinISR)-1)
	switch f.Rule {
	case RuleISR:
		return inSync
	case RuleQuorum:
		return quorum
	}
	return min(inSync, quorum)
}

func (f *PromiseFacts) survives() string {
	spare := f.spare()
	parts := []string{"kill -9 of every process"}
	gone := fmt.Sprintf("the loss of any %d of %d nodes", spare, f.Replicas)
	if f.Durability != DurabilityDisk && spare > 0 {
		gone = fmt.Sprintf("the loss of any %d of %d nodes or of their power", spare, f.Replicas)
	}
	if spare > 0 {
		parts = append(parts, gone)
	}
	if f.Durability == DurabilityDisk {
		parts = append(parts, "loss of power everywhere")
	}
	s := listed(parts)
	switch {
	case f.Durability != DurabilityDisk:
		s += ", not loss of power everywhere"
	case spare == 0:
		s += ", not the loss of a node"
	}
	if f.MinAcks != MinAcksAll {
		s += "; what a lower acks acknowledged may go with its nodes"
	}
	return s
}

func (f *PromiseFacts) blocked() string {
	need := f.needed()
	var blocked []string
	most := ""
	for i, p := range f.Partitions {
		if why := f.blockedNow(p); why != "" {
			blocked = append(blocked, strconv.Itoa(i))
			most = why
		}
	}
	if len(blocked) > 0 {
		if len(f.Partitions) == 1 {
			return most
		}
		return fmt.Sprintf("%s (%s %s)", most, plural(len(blocked), "partition"), strings.Join(shortened(blocked), ", "))
	}
	live := f.Replicas
	for _, p := range f.Partitions {
		live = min(live, p.Live)
	}
	s := fmt.Sprintf("fewer than %d of %d replicas alive", need, f.Replicas)
	if f.Replicas <= 1 {
		return "the loss of its only node"
	}
	if len(f.Partitions) > 0 {
		s += fmt.Sprintf(" (now %d)", live)
	}
	if f.Rule != RuleQuorum {
		s += ", and by a slow replica until it leaves the in-sync replicas"
	}
	return s
}

// needed is how many replicas must be alive for writes to be committed.
func (f *PromiseFacts) needed() int {
	inSync, quorum := int(f.MinISR), WriteQuorum(f.Replicas, f.MinISR)
	switch f.Rule {
	case RuleISR:
		return inSync
	case RuleQuorum:
		return quorum
	}
	return max(inSync, quorum)
}

// blockedNow says why a partition commits nothing now, empty where it does.
func (f *PromiseFacts) blockedNow(p PromisePartition) string {
	quorum := WriteQuorum(f.Replicas, f.MinISR)
	switch {
	case f.Rule != RuleISR && p.Live < quorum:
		return fmt.Sprintf("too few replicas now: %d of %d alive, %d are needed", p.Live, f.Replicas, quorum)
	case f.Rule != RuleQuorum && p.InSync < int(f.MinISR):
		return fmt.Sprintf("too few in-sync replicas now: %d of %d, min.insync.replicas is %d", p.InSync, f.Replicas, f.MinISR)
	case !p.Led:
		return "the lack of a leader now"
	}
	return ""
}

// shownPartitions bounds the partitions that a sentence names.
const shownPartitions = 5

func shortened(l []string) []string {
	if len(l) <= shownPartitions {
		return l
	}
	return append(slices.Clone(l[:shownPartitions]), fmt.Sprintf("and %d more", len(l)-shownPartitions))
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// listed joins parts as a list in words.
func listed(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
