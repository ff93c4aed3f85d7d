package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cordwood/integration/harness"
)

// system is three running nodes, ids 1 to 3.
type system interface {
	start(ctx context.Context) (ready time.Duration, err error)
	seeds() []string
	pids() []int // of running nodes
	// kill ends a node with SIGKILL; revive starts it again and waits until it is ready.
	kill(node int32) error
	revive(ctx context.Context, node int32) error
	stop() error
}

// ours is three nodes of Cordwood as users run them.
type ours struct {
	binary, dir string
	cluster     *harness.Cluster
}

func (o *ours) start(ctx context.Context) (time.Duration, error) {
	c, err := harness.New(harness.Options{Binary: o.binary, Nodes: 3, Dir: o.dir, Production: true})
	if err != nil {
		return 0, err
	}
	o.cluster = c
	began := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	err = c.WaitReady(ctx, time.Minute)
	return time.Since(began), err
}

func (o *ours) seeds() []string { return o.cluster.Bootstrap() }

func (o *ours) pids() []int {
	var p []int
	for _, n := range o.cluster.Nodes {
		if pid := n.Pid(); pid != 0 {
			p = append(p, pid)
		}
	}
	return p
}

func (o *ours) kill(node int32) error { return o.cluster.Node(int(node)).Kill() }

func (o *ours) revive(ctx context.Context, node int32) error {
	n := o.cluster.Node(int(node))
	if err := n.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.WaitReady(ctx)
}

func (o *ours) stop() error {
	if o.cluster == nil {
		return nil
	}
	return o.cluster.Close()
}

// kafka is three nodes of Apache Kafka, broker and controller in one, with 1 GiB of heap each.
type kafka struct {
	script, dir string
	started     bool
	down        int32 // the node that was killed
}

// kafkaPort is node 1's; the others follow in steps of ten, with the controllers' one above each.
const kafkaPort = 19392

func (k *kafka) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, k.script, args...)
	cmd.Env = append(os.Environ(), "HEAP=1g")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", k.script, strings.Join(args, " "), err)
	}
	return nil
}

func (k *kafka) start(ctx context.Context) (time.Duration, error) {
	if err := k.run(ctx, "install"); err != nil {
		return 0, err
	}
	for i := range 3 {
		if port := kafkaPort + 10*i; !harness.PortsFree(port, port+1) {
			return 0, fmt.Errorf("ports %d and %d are taken: another Kafka?", port, port+1)
		}
	}
	began := time.Now()
	k.started = true
	err := k.run(ctx, "start", k.dir, "3", strconv.Itoa(kafkaPort))
	return time.Since(began), err
}

func (k *kafka) seeds() []string {
	var s []string
	for i := range 3 {
		s = append(s, fmt.Sprintf("127.0.0.1:%d", kafkaPort+10*i))
	}
	return s
}

func (k *kafka) pids() []int {
	var p []int
	for i := int32(1); i <= 3; i++ {
		b, err := os.ReadFile(filepath.Join(k.dir, strconv.Itoa(int(i)), "pid"))
		if err != nil || i == k.down {
			continue
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			p = append(p, pid)
		}
	}
	return p
}

func (k *kafka) kill(node int32) error {
	k.down = node
	return k.run(context.Background(), "node", "kill", k.dir, strconv.Itoa(int(node)))
}

func (k *kafka) revive(ctx context.Context, node int32) error {
	// The line that says that it has started stands in its log from before.
	log := filepath.Join(k.dir, strconv.Itoa(int(node)), "out.log")
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := k.run(ctx, "node", "start", k.dir, strconv.Itoa(int(node))); err != nil {
		return err
	}
	k.down = 0
	return nil
}

func (k *kafka) stop() error {
	if !k.started {
		return nil
	}
	return k.run(context.Background(), "stop", k.dir)
}
