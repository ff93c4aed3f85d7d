// Command bench measures Cordwood beside what the same machine can do at best in the same run, and prints the ratios in
// one table. Figures of different runs are not to be compared with each other: ratios are.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// bench is one run.
type bench struct {
	binary string
	kfake  string
	dir    string // removed at the end
	bytes  int64  // of each throughput
	rounds int
	count  int // synchronous records
	pprof  bool
	table  table
}

func main() {
	var b bench
	var only string
	var partitions int
	var scale bool
	mb := flag.Int64("mb", 512, "MiB written for each throughput")
	flag.StringVar(&b.binary, "binary", "bin/cordwood", "the cordwood binary, stripped as users get it")
	flag.StringVar(&b.kfake, "kfake", ".cache/kfake", "the command integration/clients/kfake, built")
	flag.StringVar(&b.dir, "dir", "", "where data goes, a new folder in it; the yardsticks are measured there too (default: the system's temporary folder)")
	flag.IntVar(&b.rounds, "rounds", 3, "pairs of yardstick and measure; the pair of the median ratio is printed")
	flag.IntVar(&b.count, "count", 5000, "records of the synchronous producer")
	flag.BoolVar(&b.pprof, "pprof", false, "nodes serve /debug/pprof")
	flag.StringVar(&only, "only", "", "which to run, with commas: append, fsync, fetch, one, three, sync, idle, rules, ack, failover, thousand, sim (default: all)")
	flag.BoolVar(&scale, "scale", false, "measure many partitions instead")
	flag.IntVar(&partitions, "partitions", 10_000, "with -scale: how many")
	flag.Parse()
	b.bytes = *mb << 20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx, only, scale, partitions)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context, only string, scale bool, partitions int) (err error) {
	if b.dir, err = os.MkdirTemp(b.dir, "cordwood-bench-"); err != nil {
		return err
	}
	defer func() {
		if rerr := os.RemoveAll(b.dir); err == nil {
			err = rerr
		}
	}()
	if scale {
		if err := b.scale(ctx, partitions); err != nil {
			return fmt.Errorf("scale: %w", err)
		}
		return b.table.print(os.Stdout)
	}
	if err := b.touchMemory(); err != nil {
		return err
	}
	parts := []struct {
		name string
		do   func(context.Context) error
	}{
		{"append", b.append}, {"fsync", b.fsync}, {"fetch", b.fetch}, {"one", b.one}, {"three", b.three}, {"sync", b.synchronous}, {"idle", b.idle},
		{"rules", b.rules}, {"ack", b.ack}, {"failover", b.failover}, {"thousand", b.thousand}, {"sim", b.sim},
	}
	for _, p := range parts {
		if only != "" && !strings.Contains(","+only+",", ","+p.name+",") {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", p.name)
		if err := p.do(ctx); err != nil {
			_ = b.table.print(os.Stdout) // what was measured before
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return b.table.print(os.Stdout)
}
