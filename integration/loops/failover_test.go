//go:build integration

package loops

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/integration/harness"
)

const (
	replacedWithin = 2500 * time.Millisecond // a killed process whose host answers
	askEvery       = 20 * time.Millisecond
)

// failoverKinds are the nodes that fail, by what they are.
var failoverKinds = []string{"leader", "follower", "controller", "leader and controller"}

// TestAKilledNodeIsReplacedInTime kills each kind of node. Replaced means: every node that lives knows, by its own
// image, a leader that lives, in a higher epoch, of every partition that the killed node led; and the killed node is in no
// ISR.
func TestAKilledNodeIsReplacedInTime(t *testing.T) {
	rng := random(t)
	table := NewTable("round", "killed", "node", "partitions led", "replaced in")
	defer table.Print(os.Stdout)
	took := map[string][]time.Duration{}
	c := start(t, 3, harness.Options{})
	topic(t, c, "loop", 3)
	for round := range *rounds {
		for _, kind := range failoverKinds {
			inSync(t, c, "loop")
			f := armed(t, c, kind, rng.IntN(3))
			victim := f.victim
			began := time.Now()
			require.NoError(t, victim.Kill())
			f.await(t)
			d := time.Since(began)
			took[kind] = append(took[kind], d)
			table.Add(round, kind, victim.ID, len(f.led), d)
			require.LessOrEqual(t, d, replacedWithin, "%s killed", kind)
			f.close()
			require.NoError(t, victim.Start())
			require.NoError(t, c.WaitReady(t.Context(), 30*time.Second))
		}
	}
	for _, kind := range failoverKinds {
		fmt.Printf("replaced, %s killed: %s\n", kind, Spread(took[kind]))
	}
}

// candidate gives the node to fail, beginning the search at partition p. With three partitions every node leads one once
// leaders were given back to the preferred replicas, which is waited for.
func candidate(t *testing.T, c *harness.Cluster, kind string, p int) (n *harness.Node) {
	t.Helper()
	eventually(t, 30*time.Second, "a node that is "+kind, func() bool {
		controller := info(t, c).Controller
		partitions := describe(t, c, "loop")
		for i := range partitions {
			d := partitions[(p+i)%len(partitions)]
			switch {
			case kind == "controller":
				n = c.Node(controller)
			case kind == "leader" && d.Leader != controller, kind == "leader and controller" && d.Leader == controller:
				n = c.Node(d.Leader)
			case kind == "follower":
				for _, r := range d.Replicas {
					if r != d.Leader && r != controller {
						n = c.Node(r)
					}
				}
			}
			if n != nil {
				return true
			}
		}
		return false
	})
	return n
}

// failover watches how the images of the nodes that live learn of new leaders.
type failover struct {
	victim *harness.Node
	led    map[int]int // partitions that the victim led, and in which epoch
	all    map[int]int // all of them
	member bool        // the victim is in every ISR
	eyes   []*eye
}

// eye asks one node, through its own listener and on a connection that stays open.
type eye struct {
	node   *harness.Node
	client *kgo.Client
}

// armed picks a victim whose end there is something to see of: a node that was cut off a moment ago may still be asked and
// tell of a leadership that it lost, so the nodes that stay have to agree.
func armed(t *testing.T, c *harness.Cluster, kind string, p int) (f *failover) {
	t.Helper()
	eventually(t, 30*time.Second, "a node that is "+kind+" in the others' images", func() bool {
		f = newFailover(t, c, candidate(t, c, kind, p))
		if f.member && (len(f.led) > 0 || !strings.HasPrefix(kind, "leader")) {
			return true
		}
		f.close()
		return false
	})
	return f
}

func newFailover(t *testing.T, c *harness.Cluster, victim *harness.Node) *failover {
	t.Helper()
	f := &failover{victim: victim, led: map[int]int{}, all: map[int]int{}}
	for _, n := range c.Nodes {
		if n == victim {
			continue
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(n.External), kgo.DialTimeout(time.Second))
		require.NoError(t, err)
		f.eyes = append(f.eyes, &eye{n, client})
	}
	seen, err := f.eyes[0].look(t.Context())
	require.NoError(t, err)
	f.member = true
	for _, p := range seen {
		f.member = f.member && slices.Contains(p.ISR, int32(victim.ID))
		f.all[int(p.Partition)] = int(p.LeaderEpoch)
		if int(p.Leader) == victim.ID {
			f.led[int(p.Partition)] = int(p.LeaderEpoch)
		}
	}
	for _, e := range f.eyes { // every connection is open before anything fails
		_, err := e.look(t.Context())
		require.NoError(t, err)
	}
	return f
}

func (f *failover) close() {
	for _, e := range f.eyes {
		e.client.Close()
	}
}

// look gives the topic's partitions as this node's image has them.
func (e *eye) look(ctx context.Context) ([]kmsg.MetadataResponseTopicPartition, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr("loop")
	req.Topics = append(req.Topics, rt)
	resp, err := e.client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil, err
	}
	m := resp.(*kmsg.MetadataResponse)
	if len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 {
		return nil, fmt.Errorf("node %d does not know the topic: %+v", e.node.ID, m.Topics)
	}
	return m.Topics[0].Partitions, nil
}

// await returns when every eye sees the victim replaced.
func (f *failover) await(t *testing.T) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	waiting := f.eyes
	for {
		for len(waiting) > 0 {
			seen, err := waiting[0].look(t.Context())
			if err != nil || !f.replaced(seen) {
				break
			}
			waiting = waiting[1:]
		}
		if len(waiting) == 0 {
			return
		}
		select {
		case <-deadline.C:
			require.FailNow(t, "not replaced within 20 s", "node %d still waits for node %d to be replaced", waiting[0].node.ID, f.victim.ID)
		case <-tick.C:
		}
	}
}

// replaced says that an image is rid of the victim: others lead what it led, in higher epochs, and it is in no ISR.
func (f *failover) replaced(seen []kmsg.MetadataResponseTopicPartition) bool {
	if len(seen) != len(f.all) {
		return false
	}
	for _, p := range seen {
		epoch, led := f.led[int(p.Partition)]
		if int(p.Leader) == f.victim.ID || p.Leader < 0 || led && int(p.LeaderEpoch) <= epoch {
			return false
		}
		for _, r := range p.ISR {
			if int(r) == f.victim.ID {
				return false
			}
		}
	}
	return true
}
