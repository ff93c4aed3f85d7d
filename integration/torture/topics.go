package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"cordwood/integration/history"
)

// partitions is how many every topic has.
const partitions = 2

// topicSet is every way to commit that makes a difference, and how its producers ask. Topics have three replicas; five nodes
// have five of each quorum topic.
func topicSet(nodes int) []history.Topic {
	var all []history.Topic
	add := func(name, rule, durability, minAcks, acks string) {
		replicas := min(3, nodes)
		if rule == "quorum" && nodes >= 5 {
			replicas = 5
		}
		minISR := replicas/2 + 1
		all = append(all, history.Topic{Name: "torture-" + name, Replicas: replicas, MinISR: minISR, Rule: rule, Durability: durability, MinAcks: minAcks, Acks: acks})
	}
	for _, rule := range []string{"isr", "quorum"} {
		for _, durability := range []string{"memory", "disk"} {
			add(rule+"-"+durability+"-all", rule, durability, "0", "all")
		}
		add(rule+"-memory-1", rule, "memory", "0", "1")
		add(rule+"-memory-raised", rule, "memory", "all", "1") // the topic makes all of it
	}
	return all
}

// keysOf gives the keys of topics: one for each partition.
func keysOf(topics []history.Topic) []history.Key {
	var keys []history.Key
	for i := range topics {
		for p := range int32(partitions) {
			keys = append(keys, history.Key{Topic: i, Partition: p})
		}
	}
	return keys
}

// settingsOf are what a topic is made with. On a cluster that has no such settings (foreign) only Kafka's own are set.
func settingsOf(t history.Topic, foreign bool) map[string]*string {
	min := fmt.Sprint(t.MinISR)
	set := map[string]*string{"min.insync.replicas": &min}
	if !foreign {
		set["commit.rule"], set["commit.durability"], set["min.acks"] = &t.Rule, &t.Durability, &t.MinAcks
	}
	return set
}

// createTopics makes the topics.
func createTopics(ctx context.Context, admin *kadm.Client, topics []history.Topic, foreign bool) error {
	for _, t := range topics {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		r, err := admin.CreateTopic(ctx, partitions, int16(t.Replicas), settingsOf(t, foreign), t.Name)
		cancel()
		if err != nil {
			return fmt.Errorf("create topic %s: %w (%s)", t.Name, err, r.ErrMessage)
		}
	}
	return nil
}

// foreignTopics are those of a cluster that knows only Kafka's own settings.
func foreignTopics(replicas int) []history.Topic {
	minISR := replicas/2 + 1
	return []history.Topic{
		{Name: "torture-all", Replicas: replicas, MinISR: minISR, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "all"},
		{Name: "torture-1", Replicas: replicas, MinISR: minISR, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "1"},
	}
}
