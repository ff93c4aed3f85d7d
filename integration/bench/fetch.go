package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/integration/harness"
	"cordwood/integration/load"
	"cordwood/logstore/record"
)

const (
	fetchTopic   = "fetch"
	fetchShare   = 4 << 20 // bytes of one fetch
	fetchVersion = 11      // by name, not flexible: the record bytes are the answer's last field
)

// fetch measures a log whose index is cold and whose bytes are in the page cache, through the server, against sendfile
// of the same files.
func (b *bench) fetch(ctx context.Context) error {
	c, _, err := b.start(ctx, "fetch", 1)
	if err != nil {
		return err
	}
	defer b.end(c)
	n := c.Nodes[0]
	tctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := load.CreateTopic(tctx, c.Bootstrap(), fetchTopic, 1, 1, nil); err != nil {
		return err
	}
	if _, err := load.Produce(ctx, load.Target{Seeds: c.Bootstrap(), Topic: fetchTopic, Acks: 1}, b.bytes); err != nil {
		return err
	}
	var pairs []pair
	for range b.rounds {
		if err := restart(ctx, n); err != nil {
			return err
		}
		var p pair
		if p.yardstick, err = sendFiles(n); err != nil {
			return fmt.Errorf("bare sendfile: %w", err)
		}
		if p.figure, err = fetchAll(n.External); err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	b.table.atLeast("fetch of a log after a restart, 4 MiB shares / sendfile", median(pairs), 0.7)
	return nil
}

// restart makes the node forget its indexes.
func restart(ctx context.Context, n *harness.Node) error {
	if err := n.Stop(30 * time.Second); err != nil {
		return err
	}
	if err := n.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.WaitReady(ctx)
}

// sendFiles sends the log's segments over loopback without anything around.
func sendFiles(n *harness.Node) (rate float64, err error) {
	names, err := filepath.Glob(filepath.Join(n.DataDir(), fetchTopic+"-0", "*.log"))
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() { sent <- sendTo(l, names) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	start := time.Now()
	var total int64
	buf := make([]byte, fetchShare)
	for {
		m, err := c.Read(buf)
		total += int64(m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	r := load.Result{Bytes: total, Took: time.Since(start)}
	return r.MBs(), <-sent
}

// sendTo serves one connection: io.Copy from a file to a TCP connection is sendfile.
func sendTo(l net.Listener, names []string) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := sendOne(c, name); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	return c.Close()
}

func sendOne(c net.Conn, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(c, f)
	return err
}

// fetchAll reads the topic's only partition from its start to its end, share after share, and looks at nothing but where
// the next one begins, so that the server is measured and not a client.
func fetchAll(addr string) (rate float64, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	formatter := kmsg.NewRequestFormatter()
	var frame, answer []byte
	var offset, total int64
	start := time.Now()
	for {
		frame = formatter.AppendRequest(frame[:0], fetchRequest(offset), 1)
		if _, err := c.Write(frame); err != nil {
			return 0, err
		}
		if answer, err = readFrame(c, answer); err != nil {
			return 0, err
		}
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = fetchVersion
		if err := resp.ReadFrom(answer[4:]); err != nil {
			return 0, err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			return 0, fmt.Errorf("a fetch at %d was answered with error %d and %d topics", offset, resp.ErrorCode, len(resp.Topics))
		}
		p := &resp.Topics[0].Partitions[0]
		total += int64(len(p.RecordBatches))
		if offset, err = nextOffset(p.RecordBatches, offset); err != nil {
			return 0, err
		}
		if offset >= p.HighWatermark {
			return load.Result{Bytes: total, Took: time.Since(start)}.MBs(), nil
		}
	}
}

func fetchRequest(offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = fetchVersion
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, fetchShare
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = fetchTopic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, fetchShare
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// readFrame reads an answer into buf, grown where needed.
func readFrame(c net.Conn, buf []byte) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n > 2*fetchShare {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	if cap(buf) < n {
		buf = make([]byte, n, 2*fetchShare)
	}
	_, err := io.ReadFull(c, buf[:n])
	return buf[:n], err
}

// nextOffset is where the batches in b end; the last one may be cut short.
func nextOffset(b []byte, from int64) (int64, error) {
	if len(b) == 0 {
		return 0, fmt.Errorf("nothing was fetched at %d", from)
	}
	next := from
	for len(b) >= record.HeaderSize {
		h, err := record.ParseHeader(b)
		if err != nil {
			return 0, fmt.Errorf("batch at %d: %w", next, err)
		}
		if h.Size() > int64(len(b)) {
			break
		}
		next = h.EndOffset()
		b = b[h.Size():]
	}
	if next == from {
		return 0, fmt.Errorf("no whole batch was fetched at %d", from)
	}
	return next, nil
}
