package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// nodeView is one node of cluster info and node list.
type nodeView struct {
	ID       int32  `json:"id"`
	State    string `json:"state"` // alive, fenced, draining or dead
	Kafka    string `json:"kafka"` // as the listener that was asked tells it
	Rack     string `json:"rack"`
	Voter    bool   `json:"voter"`
	Replicas int    `json:"replicas"`
	Leaders  int    `json:"leaders"`

	level, maxLevel int32 // of the metadata: in force, and the highest that the node understands; 0 on another Kafka
}

// nodeInfo is the body of a node's private tag.
type nodeInfo struct {
	State    string
	Voter    bool
	Replicas int
	Leaders  int
	Rack     string
	MaxLevel int32
	Level    int32
}

type clusterView struct {
	APIVersion string     `json:"apiVersion"`
	ClusterID  string     `json:"clusterId"`
	Controller int32      `json:"controller"` // -1: none
	Nodes      []nodeView `json:"nodes"`
}

func (v *clusterView) table(w io.Writer, wide bool) {
	controller := "none"
	if v.Controller >= 0 {
		controller = strconv.Itoa(int(v.Controller))
	}
	fmt.Fprintf(w, "CLUSTER %s   CONTROLLER %s   NODES %d\n\n", v.ClusterID, controller, len(v.Nodes))
	nodeRows(w, v.Nodes)
}

func nodeRows(w io.Writer, nodes []nodeView) {
	fmt.Fprintln(w, "NODE\tSTATE\tKAFKA\tRACK\tVOTER\tREPLICAS\tLEADERS")
	for _, n := range nodes {
		voter := "no"
		if n.Voter {
			voter = "yes"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%d\n", n.ID, n.State, dash(n.Kafka), dash(n.Rack), voter, n.Replicas, n.Leaders)
	}
}

func (v *clusterView) names() []string { return []string{v.ClusterID} }

func newClusterCommand(a *app) *cobra.Command {
	info := &cobra.Command{Use: "info", Aliases: []string{"describe"}, Short: "Say who is in the cluster", Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd.Context(), &clusterView{}, func(ctx context.Context) (v view, err error) {
				err = a.ask(ctx, func(ctx context.Context, c *client) error {
					cv, err := c.cluster(ctx)
					if err != nil {
						return err
					}
					a.note("%d of %s answered", c.answering(ctx, cv.Nodes), count(len(cv.Nodes), "node"))
					v = cv
					return nil
				})
				return v, err
			})
		}}
	health := newHealthCommand(a)
	health.Use, health.Short = "health", "Say whether all is well, and what is not"
	return group("cluster", "Look at the cluster", nil, info, health, newWatchCommand(a), newUpgradeCommand(a))
}

// cluster asks one node what it knows of the cluster.
func (c *client) cluster(ctx context.Context) (*clusterView, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	if err := refused("", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	v := &clusterView{APIVersion: apiVersion, ClusterID: resp.ClusterID, Controller: resp.ControllerID, Nodes: []nodeView{}}
	ours := true
	for _, b := range resp.Brokers {
		n := nodeView{ID: b.NodeID, State: "alive"}
		if b.Host != "" {
			n.Kafka = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		}
		if b.Rack != nil {
			n.Rack = *b.Rack
		}
		if b.IsFenced {
			n.State = "fenced"
		}
		var i nodeInfo
		ok, err := privateTag(&b.UnknownTags, nodeTag, &i)
		if err != nil {
			return nil, err
		}
		if ok {
			n.State, n.Voter, n.Replicas, n.Leaders, n.Rack = i.State, i.Voter, i.Replicas, i.Leaders, i.Rack
			n.level, n.maxLevel = i.Level, i.MaxLevel
		}
		ours = ours && ok
		v.Nodes = append(v.Nodes, n)
	}
	slices.SortFunc(v.Nodes, func(a, b nodeView) int { return int(a.ID - b.ID) })
	if !ours {
		return v, c.fillFromKafka(ctx, v)
	}
	return v, nil
}

// fillFromKafka finds what our private field would have said of another Kafka's nodes by what it tells everybody.
func (c *client) fillFromKafka(ctx context.Context, v *clusterView) error {
	meta, err := c.metadata(ctx, nil)
	if err != nil {
		return err
	}
	voters, err := c.voters(ctx)
	if err != nil {
		return err
	}
	replicas, leaders := map[int32]int{}, map[int32]int{}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			leaders[p.Leader]++
			for _, r := range p.Replicas {
				replicas[r]++
			}
		}
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Replicas, n.Leaders, n.Voter = replicas[n.ID], leaders[n.ID], voters[n.ID]
	}
	return nil
}

// voters asks for the voters of the metadata log.
func (c *client) voters(ctx context.Context) (map[int32]bool, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic = "__cluster_metadata"
	rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	out := map[int32]bool{}
	if err := refused("", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := refused("", p.ErrorCode, p.ErrorMessage); err != nil {
				return nil, err
			}
			for _, voter := range p.CurrentVoters {
				out[voter.ReplicaID] = true
			}
		}
	}
	return out, nil
}

const (
	answerWithin = time.Second // of a node that is asked whether it answers
	askAtOnce    = 16
)

// answering counts the nodes that answer on the address that clients are told.
func (c *client) answering(ctx context.Context, nodes []nodeView) int {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		answered int
		slots    = make(chan struct{}, askAtOnce)
	)
	if _, err := c.metadata(ctx, []string{}); err != nil { // tells the client the nodes' addresses
		return 0
	}
	for _, n := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := c.Broker(int(n.ID)).Request(ctx, kmsg.NewPtrApiVersionsRequest()); err == nil {
				mu.Lock()
				answered++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return answered
}
