package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"cordwood/integration/harness"
)

const (
	readyIn         = 30 * time.Second // bounds the start of a node
	scenariosAtOnce = 8                // most of their time is waiting for what never comes
)

// compareNode compares with a fresh cluster of one node of ours, made for it on free ports of loopback and thrown away.
func compareNode(binary, fixtures string, names []string, known differences, verbose bool) (differ int) {
	dir, err := os.MkdirTemp("", "cordwood-oracle-")
	must(err)
	defer func() { must(os.RemoveAll(dir)) }()
	c, err := harness.New(harness.Options{Binary: binary, Nodes: 1, Dir: dir})
	must(err)
	must(c.Start())
	defer func() { must(c.Close()) }()
	node := c.Nodes[0]
	if err := c.WaitReady(context.Background(), readyIn); err != nil {
		fmt.Printf("the node is not ready: %v\n%s", err, node.LogTail(20))
		return 1
	}
	began := time.Now()
	differ = compare(node.External, fixtures, names, known, scenariosAtOnce, verbose)
	if !node.Running() {
		fmt.Printf("the node ended:\n%s", node.LogTail(20))
		differ++
	}
	fmt.Printf("took %s\n", time.Since(began).Round(time.Second))
	return differ
}
