package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/harness"
	"cordwood/integration/workload"
)

const (
	demoTopic   = "demo"
	demoRecords = 2000
	demoRate    = 1000 // records a second
)

// demoPorts are the clients' ports of the first three nodes, as in the docker files; free ones are taken instead when
// any of them is in use.
var demoPorts = []int{19092, 29092, 39092}

func newDemoCommand(a *app) *cobra.Command {
	var nodes int
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start three nodes, kill the leader under load and check that nothing acknowledged was lost",
		Long: `Starts nodes as child processes on loopback with data in a temporary directory, writes with acks=all, kills the leader
with SIGKILL half way, goes on, and verifies. On a terminal it then stays up with a small prompt to break things.

Exits with verify's code: 0, 20 when an acknowledged record is missing, 21 when one is there twice or out of order.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return runDemo(ctx, a, nodes, keep)
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 3, "number of nodes, 3 to 9")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the data directory")
	return cmd
}

// demo is one run: the nodes, and where it tells what happens.
type demo struct {
	out     io.Writer
	binary  string
	cluster *harness.Cluster
}

func runDemo(ctx context.Context, a *app, nodes int, keep bool) (err error) {
	out := a.out
	if nodes < 3 || nodes > 9 {
		return usage(fmt.Sprintf("--nodes %d: a demo takes 3 to 9 nodes", nodes))
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	a.clearStale()
	dir, remove, err := makeDemoDir(os.TempDir(), keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	opt := harness.Options{Binary: binary, Nodes: nodes, Dir: dir}
	if harness.PortsFree(demoPorts...) {
		opt.External = demoPorts
	}
	c, err := harness.New(opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fate := "removed on exit; --keep keeps it"
	if keep {
		fate = "kept"
	}
	fmt.Fprintf(out, "cordwood demo: %d nodes on loopback, data in %s (%s)\n", nodes, dir, fate)
	fmt.Fprintf(out, "  kafka   %s\n", strings.Join(c.Bootstrap(), ", "))
	d := &demo{out: out, binary: binary, cluster: c}
	began := time.Now()
	if err := c.Start(); err != nil {
		return err
	}
	if err := c.WaitReady(ctx, 30*time.Second); err != nil {
		return err
	}
	fmt.Fprintf(out, "  ready   after %.1f s\n", time.Since(began).Seconds())
	verdict := d.kill(ctx, dir)
	if verdict != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if terminal(a.in) && ctx.Err() == nil {
		d.prompt(ctx, a.in)
	}
	return verdict
}

// kill writes, kills the leader half way, goes on and verifies; the error carries verify's exit code.
func (d *demo) kill(ctx context.Context, dir string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(d.cluster.Bootstrap()...), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, demoTopic); err != nil {
		return fmt.Errorf("create topic %s: %w", demoTopic, err)
	}
	before, err := demoLeader(ctx, admin)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "topic %s: 1 partition, 3 replicas, min.insync.replicas 2; node %d leads in epoch %d\n", demoTopic, before.Leader, before.LeaderEpoch)

	acked := filepath.Join(dir, "acked")
	w, err := workload.StartWriter(workload.WriterOptions{Seeds: d.cluster.Bootstrap(), Topic: demoTopic, Tag: "demo", File: acked, Rate: demoRate, Size: 200})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := w.WaitAcked(limited, demoRecords/2); err != nil {
		return errors.Join(err, w.Stop(time.Second))
	}
	victim := d.cluster.Node(int(before.Leader))
	count, at := w.Acked(), time.Now()
	if err := victim.Kill(); err != nil {
		return errors.Join(err, w.Stop(time.Second))
	}
	fmt.Fprintf(d.out, "killed the leader, node %d, with SIGKILL after %d acknowledged records\n", victim.ID, count)
	if err := w.WaitAcked(limited, demoRecords/2); err != nil {
		return errors.Join(err, w.Stop(time.Second))
	}
	after, err := demoLeader(limited, admin)
	if err != nil {
		return errors.Join(err, w.Stop(time.Second))
	}
	gap := w.LongestGap(at)
	if err := w.Stop(30 * time.Second); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "node %d leads in epoch %d; longest time without an acknowledgement %d ms\n", after.Leader, after.LeaderEpoch, gap.Milliseconds())
	if failed := w.Errors(); len(failed) > 0 {
		return fmt.Errorf("%d records failed, the first with: %w", len(failed), failed[0])
	}
	return d.verify(limited, acked)
}

// demoLeader gives the demo partition's record, waiting for a leader.
func demoLeader(ctx context.Context, admin *kadm.Client) (kadm.PartitionDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		topics, err := admin.ListTopics(ctx, demoTopic)
		if p, ok := topics[demoTopic].Partitions[0]; err == nil && ok && p.Err == nil && p.Leader >= 0 {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return kadm.PartitionDetail{}, fmt.Errorf("no leader of %s/0: %w", demoTopic, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// verify runs the product's own verify on what was acknowledged.
func (d *demo) verify(ctx context.Context, acked string) error {
	cmd := exec.CommandContext(ctx, d.binary, "-b", strings.Join(d.cluster.Bootstrap(), ","), "verify", demoTopic, acked)
	cmd.Stdout = d.out
	cmd.Stderr = os.Stderr
	err := harness.Run(cmd)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return exit(ended.ExitCode())
	}
	return err
}

// prompt lets people break things until the input ends.
func (d *demo) prompt(ctx context.Context, in io.Reader) {
	fmt.Fprintln(d.out, "still running. Type: kill N, start N, pause N, resume N, status, quit")
	lines := make(chan string)
	go func() { // ends with the input, or with the process
		defer close(lines)
		s := bufio.NewScanner(in)
		for s.Scan() {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		fmt.Fprint(d.out, "demo> ")
		select {
		case <-ctx.Done():
			fmt.Fprintln(d.out)
			return
		case line, ok := <-lines:
			if !ok || !d.do(ctx, strings.Fields(line)) {
				fmt.Fprintln(d.out)
				return
			}
		}
	}
}

// do carries out one line; false means quit.
func (d *demo) do(ctx context.Context, words []string) bool {
	if len(words) == 0 {
		return true
	}
	switch words[0] {
	case "quit", "exit":
		return false
	case "status":
		cmd := exec.CommandContext(ctx, d.binary, "-b", strings.Join(d.cluster.Bootstrap(), ","), "cluster", "info")
		cmd.Stdout, cmd.Stderr = d.out, d.out
		_ = harness.Run(cmd) // it has said what is wrong
		return true
	}
	verbs := map[string]func(*harness.Node) error{
		"kill": (*harness.Node).Kill, "start": (*harness.Node).Start, "pause": (*harness.Node).Pause, "resume": (*harness.Node).Resume,
	}
	verb, ok := verbs[words[0]]
	if !ok || len(words) != 2 {
		fmt.Fprintln(d.out, "kill N, start N, pause N, resume N, status, quit")
		return true
	}
	id, err := strconv.Atoi(words[1])
	n := d.cluster.Node(id)
	if err != nil || n == nil {
		fmt.Fprintf(d.out, "there is no node %s; nodes are 1 to %d\n", words[1], len(d.cluster.Nodes))
		return true
	}
	if err := verb(n); err != nil {
		fmt.Fprintln(d.out, err)
	}
	return true
}
