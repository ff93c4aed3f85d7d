package replica

import (
	"errors"
	"fmt"

	"cordwood/logstore/record"
)

// soundChunk is how many bytes of a log are read through at a time.
const soundChunk = 1 << 20

// sound reads batches through that were read from the offset at on, and gives the end of those that are whole: lengths and
// checksums, and what no checksum covers, offsets that follow each other and the epochs that the log knows.
func (p *Partition) sound(at int64, spans []record.Span) (end int64, err error) {
	end = at
	for _, s := range spans {
		sc := record.Scan(s.Src, s.Off, s.Off+s.Len)
		for sc.Next() {
			h := &sc.Header
			follows := h.BaseOffset == end || end == at && h.BaseOffset < at && h.EndOffset() > at // the first may begin before
			if !follows || h.LeaderEpoch != p.log.EpochAt(max(h.BaseOffset, p.log.StartOffset())) {
				return end, fmt.Errorf("batch at offset %d: offset %d, leader epoch %d: %w", end, h.BaseOffset, h.LeaderEpoch, record.ErrCorruptBatch)
			}
			end = h.EndOffset()
		}
		err := sc.Err()
		if errors.Is(err, record.ErrShortBatch) && end > at {
			return end, nil // a read ends inside a batch where its limit is: the next one begins with that batch
		}
		if err != nil {
			return end, fmt.Errorf("batch at offset %d: %w", end, err)
		}
	}
	return end, nil
}

// soundEnd reads the whole log through and gives the end of what is sound.
func (p *Partition) soundEnd() int64 {
	at := p.log.StartOffset()
	for end := p.log.EndOffset(); at < end; {
		info, err := p.log.Read(at, soundChunk, end, true)
		if err != nil {
			return at
		}
		next, err := p.sound(at, info.Spans)
		release(info.Spans)
		if err != nil || next == at {
			return next
		}
		at = next
	}
	return at
}
