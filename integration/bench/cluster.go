package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cordwood/integration/harness"
	"cordwood/integration/load"
)

// start runs a new cluster as users run it, but for settings of the section "cluster", and says how long it took to be
// ready.
func (b *bench) start(ctx context.Context, name string, nodes int, settings ...string) (*harness.Cluster, time.Duration, error) {
	c, err := harness.New(harness.Options{Binary: b.binary, Nodes: nodes, Dir: filepath.Join(b.dir, name), Production: true, Pprof: b.pprof,
		ClusterSettings: settings})
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if err = c.Start(); err == nil {
		err = c.WaitReady(ctx, time.Minute)
	}
	if err != nil {
		return nil, 0, errors.Join(err, c.Close())
	}
	took := time.Since(began)
	if b.pprof {
		for _, n := range c.Nodes {
			fmt.Printf("node %d: http://%s/debug/pprof pid %d\n", n.ID, n.HTTP, n.Pid())
		}
	}
	return c, took, nil
}

// end ends a cluster and gives its page cache back, for the next measure.
func (b *bench) end(c *harness.Cluster) {
	if err := errors.Join(c.Close(), os.RemoveAll(filepath.Dir(c.Nodes[0].Dir))); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

func pids(c *harness.Cluster) []int {
	var p []int
	for _, n := range c.Nodes {
		p = append(p, n.Pid())
	}
	return p
}

// cost is what a cluster spent.
type cost struct {
	cpu     time.Duration
	mallocs float64
}

// spent reads what all nodes have used so far.
func spent(ctx context.Context, c *harness.Cluster) (cost, error) {
	cpu, err := load.CPU(pids(c)...)
	if err != nil {
		return cost{}, err
	}
	sum := cost{cpu: cpu}
	for _, n := range c.Nodes {
		m, err := metric(ctx, n, "go_memstats_mallocs_total")
		if err != nil {
			return cost{}, err
		}
		sum.mallocs += m
	}
	return sum, nil
}

// metric reads one value without labels from a node's /metrics.
func metric(ctx context.Context, n *harness.Node, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("node %d has no metric %s", n.ID, name), lines.Err())
}

// fake is a running kfake.
type fake struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func (b *bench) startFake() (*fake, error) {
	f := &fake{cmd: exec.Command(b.kfake)}
	var err error
	if f.stdin, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, fmt.Errorf("kfake: %w (make bench builds it)", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kfake gave no address: %w", err), f.close())
	}
	f.addr = strings.TrimSpace(line)
	return f, nil
}

func (f *fake) close() error {
	_ = f.stdin.Close()
	return f.cmd.Wait()
}
