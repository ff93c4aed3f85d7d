package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"cordwood/integration/load"
	"cordwood/logstore"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// fsyncFor is how long one measure of durable appends takes.
const fsyncFor = 2 * time.Second

// fsync measures appends of 1 KiB that are acknowledged from disk, by writers at the same time that share fsyncs, against
// a file that is written and synced for each append.
func (b *bench) fsync(context.Context) error {
	for _, x := range []struct {
		writers int
		aim     float64
	}{{1, 0.6}, {8, 2}, {64, 8}} {
		var pairs []pair
		for range b.rounds {
			var p pair
			var err error
			if p.yardstick, err = b.syncedWrites(); err != nil {
				return err
			}
			if p.figure, err = b.syncedAppends(x.writers); err != nil {
				return err
			}
			pairs = append(pairs, p)
		}
		b.table.times(fmt.Sprintf("durable appends of 1 KiB by %d writers / one fsync each", x.writers), median(pairs), "/s", x.aim)
	}
	return nil
}

func (b *bench) syncedWrites() (rate float64, err error) {
	name := filepath.Join(b.dir, "synced")
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer os.Remove(name)
	defer f.Close()
	one := make([]byte, load.RecordBytes)
	start, n := time.Now(), 0
	for ; time.Since(start) < fsyncFor; n++ {
		if _, err := f.Write(one); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

func (b *bench) syncedAppends(writers int) (rate float64, err error) {
	name := filepath.Join(b.dir, "durable")
	defer os.RemoveAll(name)
	dir, err := logstore.OpenDir(vfs.OS{}, name, logstore.DirOptions{NodeID: 1})
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	cfg := logstore.DefaultLogConfig()
	cfg.Disk = true
	log, err := dir.Create("bench", record.PartitionID{Topic: record.TopicID{1}}, cfg)
	if err != nil {
		return 0, err
	}
	var (
		wait   sync.WaitGroup
		n      atomic.Int64
		failed atomic.Pointer[error]
		start  = time.Now()
	)
	for range writers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			batch := record.NewBatch(0, record.NewRecord{Value: make([]byte, load.RecordBytes), Timestamp: start.UnixMilli()})
			header, err := record.ParseHeader(batch)
			for err == nil && time.Since(start) < fsyncFor {
				if _, err = log.Append(batch, &header, 0, false); err == nil {
					_, err = log.Flush()
				}
				n.Add(1)
			}
			if err != nil {
				failed.Store(&err)
			}
		}()
	}
	wait.Wait()
	if p := failed.Load(); p != nil {
		return 0, *p
	}
	return float64(n.Load()) / time.Since(start).Seconds(), nil
}
