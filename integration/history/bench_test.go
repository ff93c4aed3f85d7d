package history

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"
)

// benchOps is how many operations the benchmarks judge and read, before the final polls; CORDWOOD_HISTORY_OPS changes it.
func benchOps(b *testing.B) int {
	s := os.Getenv("CORDWOOD_HISTORY_OPS")
	if s == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func benchHistory(b *testing.B, transactions bool) *History {
	return Generate(Shape{Seed: 1, Processes: 6, Topics: 4, Keys: 3, Ops: benchOps(b), Transactions: transactions, PollMax: 12, FinalMax: 500})
}

// peak measures the most bytes that objects on the heap took while f ran, the garbage among them.
func peak(f func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	stop, done := make(chan struct{}), make(chan struct{})
	most := uint64(0)
	go func() {
		defer close(done)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most
}

func report(b *testing.B, h *History, most uint64) {
	polled := 0
	for _, o := range h.Ops {
		for _, m := range o.Mops {
			polled += len(m.Poll)
		}
	}
	b.ReportMetric(float64(len(h.Ops)), "operations")
	b.ReportMetric(float64(polled), "polled")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s")
	b.ReportMetric(float64(most)/1e6, "peak-MB")
}

// BenchmarkCheck judges a history with the order of writes too, which is the most work; the peak has the history in it.
func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct {
		name         string
		transactions bool
		options      Options
	}{{"transactions", true, Options{}}, {"groups", false, Options{}}, {"transactions and writes", true, Options{WW: true}}} {
		b.Run(c.name, func(b *testing.B) {
			h := benchHistory(b, c.transactions)
			b.ResetTimer()
			most := peak(func() {
				for b.Loop() {
					if r := c.options.Check(h); r.Exit != ExitOK {
						b.Fatal(said(r))
					}
				}
			})
			report(b, h, most)
		})
	}
}

// BenchmarkRead reads the same history from a file and judges it, as is done with a saved one.
func BenchmarkRead(b *testing.B) {
	file := filepath.Join(b.TempDir(), "history")
	size := writeBench(b, file)
	b.SetBytes(size)
	b.ResetTimer()
	var h *History
	most := peak(func() {
		for b.Loop() {
			f, err := os.Open(file)
			if err != nil {
				b.Fatal(err)
			}
			if h, err = Read(f); err != nil {
				b.Fatal(err)
			}
			f.Close()
			if r := Check(h); r.Exit != ExitOK {
				b.Fatal(said(r))
			}
		}
	})
	report(b, h, most)
}

func writeBench(b *testing.B, name string) (size int64) {
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := Write(f, benchHistory(b, true)); err != nil {
		b.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
