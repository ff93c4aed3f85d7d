package main

import (
	"context"

	"cordwood/fsm/metadata"
)

// resizeTopics begins to move every partition of topics to another number of replicas.
func (c *client) resizeTopics(ctx context.Context, names []string, replication int, force bool) (*topicsDoneView, error) {
	topics, err := c.describePartitions(ctx, names)
	if err != nil {
		return nil, err
	}
	cluster, err := c.cluster(ctx)
	if err != nil {
		return nil, err
	}
	var loads []metadata.NodeLoad
	for _, n := range cluster.Nodes {
		loads = append(loads, metadata.NodeLoad{ID: n.ID, Rack: n.Rack, Replicas: n.Replicas, MayLead: n.State == "alive"})
	}
	v := &topicsDoneView{APIVersion: apiVersion, Topics: []topicDone{}}
	for i := range topics {
		t := &topics[i]
		d := topicDone{Name: t.Name, ID: t.ID, Status: "moving"}
		code, err := c.resize(ctx, t, replication, loads, force)
		if err != nil {
			d.fail(err, code)
		}
		v.Topics = append(v.Topics, d)
	}
	return v, nil
}

// resize begins the moves of one topic. The code is Kafka's, of the error.
func (c *client) resize(ctx context.Context, t *topicView, replication int, loads []metadata.NodeLoad, force bool) (int16, error) {
	var present [][]int32
	for i := range t.Partitions {
		present = append(present, t.Partitions[i].present())
	}
	next, err := metadata.Resize(present, replication, loads)
	if err != nil {
		return invalidReplicationFactor, &failure{code: exitRefused, err: err, kafka: errorName(invalidReplicationFactor)}
	}
	moves := map[int32][]int32{}
	for i, p := range t.Partitions {
		moves[p.Partition] = next[i]
	}
	err = c.reassign(ctx, map[string]map[int32][]int32{t.Name: moves}, force)
	return codeIn(err), err
}

const invalidReplicationFactor = 38
