package transport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// everything serves every request that kmsg knows.
type everything struct{}

func (everything) Lookup(key, version int16, _ bool) (kmsg.Request, Action) {
	req := kmsg.RequestForKey(key)
	if req == nil || version < 0 || version > req.MaxVersion() {
		return nil, Refuse
	}
	req.SetVersion(version)
	return req, Serve
}

// onlyReads is a connection of which only reading is used.
type onlyReads struct {
	net.Conn
	io.Reader
}

func (o onlyReads) Read(b []byte) (int, error)      { return o.Reader.Read(b) }
func (o onlyReads) SetReadDeadline(time.Time) error { return nil }

func readerOf(b []byte, limit int64) *reader {
	src := onlyReads{Reader: bytes.NewReader(b)}
	return &reader{conn: src, br: bufio.NewReaderSize(src, readBuffer), budget: newBudget(64 << 20), maxBytes: limit, patience: time.Second}
}

// Whatever comes, the reader ends with a fault of the frame or the end of the bytes, and gives back all that it took.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0})
	req := kmsg.NewPtrFetchRequest()
	for v := int16(0); v <= req.MaxVersion(); v++ {
		req.SetVersion(v)
		b := []byte{0, 0, 0, 0, 0, 1, 0, byte(v), 0, 0, 0, 1, 0xff, 0xff}
		if req.IsFlexible() {
			b = append(b, 0)
		}
		b = req.AppendTo(b)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := readerOf(b, 1<<20)
		for {
			n, err := r.size()
			var fr *frame
			if err == nil {
				fr, err = r.body(t.Context(), n)
			}
			if err != nil {
				var bad *frameError
				if !errors.As(err, &bad) && !errors.Is(err, io.EOF) {
					t.Fatalf("ended with %v", err)
				}
				break
			}
			if len(fr.b) != n {
				t.Fatalf("a frame of %d bytes came as %d", n, len(fr.b))
			}
			req, err := decode(everything{}, fr.b, true)
			var bad *frameError
			if err != nil && !errors.As(err, &bad) {
				t.Fatalf("decode: %v", err)
			}
			if err == nil {
				_ = req.Body.AppendTo(nil)
			}
			r.free(fr)
		}
		if held := r.budget.held(); held != 0 {
			t.Fatalf("%d bytes are still held", held)
		}
	})
}

// A size alone takes no memory to speak of: what is taken follows what has arrived.
func TestADeclaredSizeTakesNoMemory(t *testing.T) {
	for _, sent := range []int{0, 1000, 100 << 10} {
		b := binary.BigEndian.AppendUint32(nil, 100<<20)
		b = append(b, make([]byte, sent)...)
		r := readerOf(b, 100<<20)
		n, err := r.size()
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := r.body(t.Context(), n); err == nil {
			t.Fatal("a cut frame was whole")
		}
		runtime.ReadMemStats(&after)
		if took := int(after.TotalAlloc - before.TotalAlloc); took > 2*growth*max(sent, firstChunk) {
			t.Errorf("%d bytes of 100 MiB arrived, %d were taken", sent, took)
		}
	}
}

func TestTheBudgetKeepsAnswersAndRequestsApart(t *testing.T) {
	b := newBudget(800)
	if err := b.acquireRequest(t.Context(), 700, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := b.acquireRequest(t.Context(), 1, time.Millisecond); !errors.Is(err, errMemory) {
		t.Fatalf("a request beyond its share: %v", err)
	}
	if err := b.acquireAnswer(t.Context(), 100, time.Millisecond); err != nil {
		t.Fatalf("an answer found no room beside requests: %v", err)
	}
	got := make(chan error, 2)
	go func() { got <- b.acquireRequest(t.Context(), 650, time.Minute) }()
	for b.waiting() != 1 {
		runtime.Gosched()
	}
	b.release(100)
	go func() { got <- b.acquireAnswer(t.Context(), 100, time.Minute) }()
	if err := <-got; err != nil { // the answer overtakes the request that does not fit
		t.Fatal(err)
	}
	b.release(800)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if b.held() != 650 || b.waiting() != 0 {
		t.Fatalf("held %d with %d waiting", b.held(), b.waiting())
	}
}

func (b *budget) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters)
}

// What is larger than the bound is served when nothing else is held, so that no request can wait for ever.
func TestARequestLargerThanTheBudgetIsServedAlone(t *testing.T) {
	b := newBudget(100)
	if err := b.acquireRequest(t.Context(), 1000, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := b.acquireAnswer(t.Context(), 1, time.Millisecond); !errors.Is(err, errMemory) {
		t.Fatalf("beside it: %v", err)
	}
}

func TestBuffersComeBackInTheirSize(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 4097, 1 << 20, 1<<20 + 1, 1 << 24, 1<<24 + 1} {
		b := GetBuffer(n)
		if len(b) != 0 || cap(b) < n {
			t.Fatalf("a buffer for %d has %d of %d", n, len(b), cap(b))
		}
		PutBuffer(b)
		if again := GetBuffer(n); cap(again) < n {
			t.Fatalf("a pooled buffer for %d holds %d", n, cap(again))
		}
	}
	PutBuffer(nil)
}
