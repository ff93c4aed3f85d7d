// Command kfake runs franz-go's broker in memory, the yardstick that clients are measured against: it prints its address
// and serves until standard input ends.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	topic      = "bench"
	partitions = 6
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
}

func run() error {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(c.ListenAddrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
