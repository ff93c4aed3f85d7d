package replica

import (
	"errors"
	"fmt"
	"time"

	"cordwood/fsm/mutant"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
)

// Next says where this replica stands with leader, for request number seq; ok is false where it does not follow that
// node now. A damaged log stands nowhere until it is repaired: its end would be counted.
func (p *Partition) Next(leader int32, seq int64, maxBytes int32) (fp partition.FetchPartition, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != partition.RoleFollow || p.rec.Leader != leader || p.quarantined != "" || p.failed != nil {
		return fp, false
	}
	if _, damaged := p.log.Damaged(); damaged {
		return fp, false
	}
	end := p.log.EndOffset()
	p.fetch.asked = partition.Asked{LeaderEpoch: p.rec.LeaderEpoch, Base: end}
	p.fetch.seq, p.fetch.valid, p.fetch.told = seq, true, p.log.StartOffset()
	p.fetch.acked = partition.Position(p.rec, p.log)
	return partition.FetchPartition{
		ID:                 p.id,
		FetchOffset:        end,
		LastFetchedEpoch:   partition.EpochBefore(end, p.log),
		CurrentLeaderEpoch: p.rec.LeaderEpoch,
		LogStartOffset:     p.fetch.told,
		AckOffset:          p.fetch.acked,
		JoinPE:             p.rec.Member(p.me).JoinPE,
		MaxBytes:           maxBytes,
	}, true
}

// NextAck says how far this replica's copy counts, where that is further than leader was told. It speaks of nothing above
// the last fetch: only what is below is known to be the leader's too.
func (p *Partition) NextAck(leader int32) (a partition.AckPosition, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != partition.RoleFollow || p.rec.Leader != leader || p.quarantined != "" || p.failed != nil || p.fetch.asked.LeaderEpoch != p.rec.LeaderEpoch {
		return a, false
	}
	if _, damaged := p.log.Damaged(); damaged {
		return a, false
	}
	off := min(partition.Position(p.rec, p.log), p.fetch.asked.Base)
	if off <= p.fetch.acked {
		return a, false
	}
	p.fetch.acked = off
	return partition.AckPosition{ID: p.id, LeaderEpoch: p.rec.LeaderEpoch, AckOffset: off}, true
}

// errPeer says that a leader sent what no leader may send: its connection ends.
var errPeer = errors.New("the leader's answer breaks the protocol")

// Answer acts on the leader's answer to request number seq. again says that the partition has to be named in the next
// request. An error ends the connection; the replica itself stays as it is.
func (p *Partition) Answer(seq int64, a partition.Answer, batches []byte) (again bool, err error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	if p.role != partition.RoleFollow || (!p.fetch.valid || seq < p.fetch.seq) && !mutant.StaleResp {
		p.mu.Unlock()
		return false, nil // not what is outstanding
	}
	rec := p.rec
	j := partition.Judge(rec, p.fetch.asked, a, p.log)
	told := p.fetch.told
	if j.Action != partition.ActAppend || len(batches) > 0 {
		p.fetch.valid = false
	}
	p.mu.Unlock()

	switch j.Action {
	case partition.ActDrop:
		return true, nil
	case partition.ActQuarantine:
		p.quarantine(j.Reason)
		return false, nil
	case partition.ActTruncate:
		return true, p.cut(j, a, func() error { return p.log.Truncate(j.To) })
	case partition.ActReset:
		return true, p.cut(j, a, func() error { return p.log.Reset(j.To, j.ToEpoch) })
	}
	if len(batches) > 0 {
		if _, err = p.log.AppendReplica(batches, rec.LeaderEpoch); err != nil {
			err = p.refused(err)
		}
	}
	// What was appended counts, also before a batch that was refused.
	hw, start := a.Advance(p.log)
	p.mu.Lock()
	p.log.SetHighWatermark(hw)
	p.mu.Unlock()
	if err == nil && start > p.log.StartOffset() {
		err = p.log.RaiseStart(start)
		if err != nil {
			err = p.broken(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fetch.retries++; err == nil {
		p.fetch.retries = 0
		p.catchUp()
	}
	return len(batches) > 0 || p.log.StartOffset() != told || err != nil, err
}

// refused turns an error over a leader's batches into what the fetcher does: end the connection where the leader is at
// fault, else as broken.
func (p *Partition) refused(err error) error {
	if errors.Is(err, record.ErrCorruptBatch) || errors.Is(err, record.ErrShortBatch) || errors.Is(err, record.ErrNotContiguous) {
		return fmt.Errorf("%w: partition %s: %w", errPeer, p.id, err)
	}
	return p.broken(err)
}

// broken notes a failure of this replica's own log, damage in it too; what passes is tried again later.
func (p *Partition) broken(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(err)
	return fmt.Errorf("partition %s: %w", p.id, err)
}

// cut shortens or empties the log as the leader said. The caller holds writing.
func (p *Partition) cut(j partition.Judgement, a partition.Answer, do func() error) error {
	end, hw, start := p.log.EndOffset(), p.log.HighWatermark(), p.log.StartOffset()
	if err := do(); err != nil {
		return p.broken(err)
	}
	if j.Action == partition.ActReset {
		p.mu.Lock()
		p.log.SetHighWatermark(j.To)
		p.mu.Unlock()
	}
	log, what := p.slog.Info, "cut the log to the leader's"
	if j.Flagged {
		log = p.slog.Warn
	}
	if j.Action == partition.ActReset {
		what = "emptied the log to start where the leader's does"
	}
	if j.To < end || j.Action == partition.ActReset {
		p.node.truncated(end-min(end, j.To), j.Flagged)
	}
	log(what, "epoch", a.LeaderEpoch, "from", end, "to", j.To, "highWatermark", hw, "logStart", start, "afterFlaggedElection", j.Flagged)
	return nil
}

func (p *Partition) quarantine(reason string) {
	p.mu.Lock()
	p.quarantined = reason
	p.fetch.valid = false
	p.mu.Unlock()
	p.slog.Error("replica is quarantined: its bytes are kept, it fetches no more, an operator decides", "reason", reason)
}

// backoff is how long the partition waits after an answer that was not taken.
func (p *Partition) backoff() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(retryMax, retryMin<<min(max(p.fetch.retries-1, 0), 10))
}

// Refused notes an error answer to request number seq; again says that the partition is to be named later.
func (p *Partition) Refused(seq int64) (again bool, retries int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != partition.RoleFollow || !p.fetch.valid || seq < p.fetch.seq {
		return false, 0
	}
	p.fetch.valid = false
	p.fetch.retries++
	return true, p.fetch.retries
}
