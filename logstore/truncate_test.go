package logstore

import (
	"path"
	"testing"

	"cordwood/logstore/record"
)

// TestLog_ARottenHeaderNeverDecidesWhatATruncationTakes flips each bit of one batch's header and cuts the log at each end
// of a batch and inside one: the log either ends exactly where it does without the flip, or refuses as damaged with all it
// has. The high watermark stands at the cut, so a cut that goes further would take what is committed.
func TestLog_ARottenHeaderNeverDecidesWhatATruncationTakes(t *testing.T) {
	for _, interval := range []int64{4096, 1} {
		for _, records := range []int64{1, 2} {
			flipHeaders(t, interval, records)
		}
	}
}

func flipHeaders(t *testing.T, interval, records int64) {
	const rotten, batches = 2, 5
	cfg := testConfig()
	cfg.SegmentBytes, cfg.IndexIntervalBytes = 1<<20, interval
	refused := 0
	for bit := range 8 * record.HeaderSize {
		for end := int64(1); end < records*batches; end++ {
			d := newTestDir(t)
			l := d.create(0, cfg)
			for range batches {
				b, h := batchOf(int(records), 50, 1_700_000_000_000)
				if _, err := l.Append(b, &h, 1, false); err != nil {
					t.Fatal(err)
				}
			}
			size, whole := l.Size()/batches, end/records
			l.SetHighWatermark(whole * records)
			flipBit(t, d, rotten*size*8+int64(bit))

			err := l.Truncate(end)
			stay := whole
			switch {
			case err == nil:
			case isBroken(err) && end > records*rotten:
				stay = batches
				refused++
			default:
				t.Fatalf("bit %d, cut to %d: %v", bit, end, err)
			}
			if l.EndOffset() != stay*records || l.Size() != stay*size || l.HighWatermark() != whole*records {
				t.Fatalf("bit %d, cut to %d (%v): end %d, %d bytes, high watermark %d; want %d batches of %d bytes", bit, end, err, l.EndOffset(), l.Size(), l.HighWatermark(), stay, size)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused == 0 {
		t.Fatal("no flip was noticed")
	}
}

// flipBit flips a bit of the first segment on the disk.
func flipBit(t *testing.T, d *testDir, bit int64) {
	f, err := d.mem.OpenReadWrite(segmentPath(path.Join("data", "t-0"), 0, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if err := readFull(f, b[:], bit/8); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b[:], bit/8); err != nil {
		t.Fatal(err)
	}
}
