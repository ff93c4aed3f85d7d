package metadata

import (
	"fmt"
	"slices"
	"strings"
)

// Past is one change of a partition's record as a node applied it. Records are immutable, so that keeping them costs
// two pointers.
type Past struct {
	Index    uint64 // raft index up to which the change was applied
	Time     int64  // wall clock of the node that applied it, milliseconds; 0: before that node's start
	Old, New *Partition
	Events   []Event // what was told of the partition with it
}

// HistoryEntry is a Past in words, with the record as it was then.
type HistoryEntry struct {
	Index          uint64   `json:"index"`
	Time           int64    `json:"time"`   // milliseconds; 0: before the start of the node that tells it
	Leader         int32    `json:"leader"` // NoNode: none
	LeaderEpoch    int32    `json:"leaderEpoch"`
	PartitionEpoch int32    `json:"partitionEpoch"`
	ISR            []int32  `json:"isr"`
	Changes        []string `json:"changes"`
}

// Entry puts the change into words.
func (p *Past) Entry() HistoryEntry {
	n := p.New
	e := HistoryEntry{Index: p.Index, Time: p.Time, Leader: n.Leader, LeaderEpoch: n.LeaderEpoch, PartitionEpoch: n.PartitionEpoch, ISR: n.ISR, Changes: p.changes()}
	for _, ev := range p.Events {
		e.Changes = append(e.Changes, ev.Kind+": "+ev.Detail)
	}
	return e
}

func (p *Past) changes() []string {
	o, n := p.Old, p.New
	if o == nil {
		return []string{fmt.Sprintf("created on %s, led by %s", idsText(n.Replicas), leaderText(n.Leader))}
	}
	out := []string{}
	note := func(changed bool, format string, args ...any) {
		if changed {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	note(o.Leader != n.Leader || o.LeaderEpoch != n.LeaderEpoch, "leader %s → %s (epoch %d → %d)", leaderText(o.Leader), leaderText(n.Leader), o.LeaderEpoch, n.LeaderEpoch)
	note(!slices.Equal(o.ISR, n.ISR), "in sync %s → %s", idsText(o.ISR), idsText(n.ISR))
	note(!slices.Equal(o.ELR, n.ELR), "eligible %s → %s", idsText(o.ELR), idsText(n.ELR))
	note(!slices.Equal(o.Replicas, n.Replicas), "replicas %s → %s", idsText(o.Replicas), idsText(n.Replicas))
	note(!slices.Equal(o.Adding, n.Adding), "being filled %s → %s", idsText(o.Adding), idsText(n.Adding))
	note(!slices.Equal(o.NewReplicas, n.NewReplicas), "second set in force %s → %s", idsText(o.NewReplicas), idsText(n.NewReplicas))
	note(o.Rule != n.Rule, "%s %s → %s", SettingCommitRule, o.Rule, n.Rule)
	note(o.Durability != n.Durability, "%s %s → %s", SettingCommitDurability, o.Durability, n.Durability)
	note(o.Recovery != n.Recovery, "%s %s → %s", SettingRecovery, o.Recovery, n.Recovery)
	note(o.MinISR != n.MinISR, "%s %d → %d", SettingMinISR, o.MinISR, n.MinISR)
	note(o.LossEpoch != n.LossEpoch, "the election of epoch %d is flagged as unsafe", n.LossEpoch)
	for _, m := range n.Members {
		was := o.Member(m.ID)
		note(was != nil && was.Cert != m.Cert && m.Cert >= 0, "node %d is certified complete", m.ID)
		note(was != nil && was.Cert != m.Cert && m.Cert < 0, "node %d is no longer known to be complete", m.ID)
	}
	return out
}

func idsText(ids []int32) string {
	if len(ids) == 0 {
		return "none"
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = fmt.Sprint(id)
	}
	return strings.Join(words, ",")
}

func leaderText(id int32) string {
	if id == NoNode {
		return "none"
	}
	return fmt.Sprint(id)
}

// EncodeHistory is the body of TagHistory in an answer.
func EncodeHistory(l []HistoryEntry) []byte { return encodeField(l) }

// DecodeHistory reads what EncodeHistory wrote.
func DecodeHistory(b []byte) ([]HistoryEntry, error) { return decodeField[[]HistoryEntry](b) }
