package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/cluster/replica"
	"cordwood/fsm/metadata"
	"cordwood/logstore"
	"cordwood/logstore/vfs"
	"cordwood/transport"
	"cordwood/transport/api/apitest"
)

// errAlone is what a node without others says of roads to them.
var errAlone = errors.New("there is no other node")

// solo is one node in this process: the real server, handlers, metadata, replicas and logs, on a disk in memory. Only
// raft is missing: commands are applied as they are proposed.
func solo(t *testing.T) (address string) {
	t.Helper()
	c := apitest.New(t, 1)
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, err := logstore.OpenDir(vfs.NewMem(time.Now), "/data", logstore.DirOptions{NodeID: 1, BootID: "boot"})
	fail(err)
	fail(dir.SetClusterID("test"))
	found, err := dir.Inspect(context.Background(), 1, func(int, int) {})
	fail(err)
	defaults := c.Handlers.Node.TopicDefaults.Settings
	m, err := replica.NewManager(replica.Options{
		NodeID: 1, Dir: dir, Controller: alone{},
		Dial:   func(context.Context, int32) (replica.Conn, error) { return nil, errAlone },
		Config: func(topic *metadata.Topic) logstore.LogConfig { return logConfig(defaults.Effective(topic)) },
	})
	fail(err)
	fail(m.Start(context.Background(), c.Image(), replica.Registration{BrokerEpoch: c.Image().BrokerEpoch(1), Class: metadata.RestartClean}, found))
	c.Published = func(image *metadata.Image, delta metadata.Delta) {
		if err := m.Apply(image, delta); err != nil {
			t.Error(err)
		}
	}
	c.Handlers.Replicas = m
	c.Handlers.ProducerIDs = &counter{}
	s, err := transport.NewServer(transport.Options{
		Listeners: []transport.Listener{{Name: "external", Bind: "127.0.0.1:0"}}, Table: c.Handlers, Handler: c.Handlers,
	})
	fail(err)
	fail(s.Listen(context.Background()))
	t.Cleanup(func() {
		for _, close := range []func() error{s.Close, m.Close, dir.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s.Addr("external").String()
}

// alone is the controller of a node whose replicas never propose anything.
type alone struct{}

func (alone) AlterPartition(context.Context, *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	return nil, errAlone
}

// counter hands out producer ids.
type counter struct{ last atomic.Int64 }

func (c *counter) Next(context.Context) (int64, error) { return c.last.Add(1), nil }

func logConfig(c metadata.TopicConfig) logstore.LogConfig {
	return logstore.LogConfig{
		SegmentBytes: c.SegmentBytes, SegmentMS: c.SegmentMS, IndexIntervalBytes: c.IndexIntervalBytes, RetentionMS: c.RetentionMS,
		RetentionBytes: c.RetentionBytes, CleanupDelete: c.CleanupDelete, FlushMessages: c.FlushMessages, FlushMS: c.FlushMS,
		FileDeleteDelayMS: c.FileDeleteDelayMS, MaxMessageBytes: c.MaxMessageBytes, ProducerExpirationMS: 24 * 3600 * 1000,
	}
}
