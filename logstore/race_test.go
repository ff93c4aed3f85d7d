package logstore

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"cordwood/logstore/record"
)

// TestLog_ReadersSeeWholeBatchesWhileEverythingMoves reads from many goroutines while one appends and cuts, and others
// flush, checkpoint, retire and tick. Every batch read is sound, and its bytes stay while the Span is held.
func TestLog_ReadersSeeWholeBatchesWhileEverythingMoves(t *testing.T) {
	d := newTestDir(t)
	d.opt.OpenFiles = 3
	d.handles.max = 3
	cfg := testConfig()
	cfg.FileDeleteDelayMS = 0
	l := d.create(0, cfg)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	done := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(n uint64, step func(r *rand.Rand) error) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, n))
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := step(r); err != nil {
					t.Errorf("goroutine %d: %v", n, err)
					return
				}
			}
		})
	}
	for i := range uint64(3) {
		loop(i, func(r *rand.Rand) error { return readSome(l, r) })
	}
	loop(10, func(*rand.Rand) error { _, err := l.Flush(); return err })
	loop(11, func(*rand.Rand) error { return d.Checkpoint() })
	loop(12, func(r *rand.Rand) error {
		d.Tick(d.now.Add(time.Duration(r.IntN(1000)) * time.Second))
		l.SetHighWatermark(l.StartOffset())
		_, _, _, _, err := l.OffsetForTime(1_700_000_000_000+r.Int64N(1000), l.EndOffset())
		return err
	})
	r := rand.New(rand.NewPCG(seed, 99))
	for range 1000 {
		var err error
		switch n := r.IntN(100); {
		case n < 80:
			b, h := batchOf(1+r.IntN(3), r.IntN(100), 1_700_000_000_000+l.EndOffset())
			_, err = l.Append(b, &h, 1, false)
		case n < 90:
			err = l.Truncate(max(l.StartOffset(), l.EndOffset()-r.Int64N(12)))
		case n < 92:
			err = l.RaiseStart(min(l.EndOffset(), l.StartOffset()+r.Int64N(10)))
		default:
			b, _ := batchOf(1, 20, 0)
			record.SetOffset(b, l.EndOffset(), 1)
			_, err = l.AppendReplica(b, 1)
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	wg.Wait()
	if reason, damaged := l.Damaged(); damaged {
		t.Fatal(reason)
	}
	for _, e := range d.handles.open {
		if n := e.Value.(*cached).h.holders.Load(); n != 1 {
			t.Errorf("%v has %d holders at rest", e.Value.(*cached).key, n)
		}
	}
}

// readSome reads anywhere, twice from the same Spans, and checks every whole batch.
func readSome(l *Log, r *rand.Rand) error {
	start, end := l.StartOffset(), l.EndOffset()
	if end <= start {
		return nil
	}
	from := start + r.Int64N(end-start)
	info, err := l.Read(from, int32(r.IntN(3000)), end, true)
	if errors.Is(err, record.ErrOffsetOutOfRange) {
		return nil // cut or retired meanwhile
	}
	if err != nil {
		return err
	}
	for _, s := range info.Spans {
		defer s.Release()
		first := make([]byte, s.Len)
		if err := readFull(s.Src, first, s.Off); err != nil {
			return err
		}
		again := make([]byte, s.Len)
		if err := readFull(s.Src, again, s.Off); err != nil {
			return err
		}
		if string(first) != string(again) {
			return errors.New("bytes of a Span changed")
		}
		for b := first; len(b) >= record.HeaderSize; {
			h, err := record.ParseHeader(b)
			if err != nil {
				return err
			}
			if h.Size() > int64(len(b)) {
				break
			}
			if err := record.Verify(&h, b); err != nil {
				return err
			}
			b = b[h.Size():]
		}
	}
	return nil
}
