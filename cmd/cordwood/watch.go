package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// event is one change that cluster watch saw.
type event struct {
	APIVersion  string `json:"apiVersion"`
	Time        string `json:"time"`
	Event       string `json:"event"` // node, controller, topic, leader or isr
	Subject     string `json:"subject"`
	From        string `json:"from"`
	To          string `json:"to"`
	LeaderEpoch *int32 `json:"leaderEpoch,omitempty"`
	// Unavailable is how long a partition was seen without a leader.
	Unavailable *float64 `json:"unavailableSeconds,omitempty"`
}

func (e event) line() string {
	s := fmt.Sprintf("%-22s %s %s → %s", e.Subject, e.Event, e.From, e.To)
	if e.LeaderEpoch != nil {
		s += fmt.Sprintf("  (epoch %d)", *e.LeaderEpoch)
	}
	if e.Unavailable != nil {
		s += fmt.Sprintf("   unavailable for %.2fs", *e.Unavailable)
	}
	return s
}

// snapshot is what cluster watch compares.
type snapshot struct {
	at         time.Time
	controller int32
	nodes      map[int32]string
	partitions map[string]partitionView // by topic/partition
}

// watcher turns snapshots into events.
type watcher struct {
	last       *snapshot
	leaderless map[string]time.Time
}

// next compares with the snapshot before. The first gives no events.
func (w *watcher) next(s *snapshot) []event {
	last := w.last
	w.last = s
	if last == nil {
		w.leaderless = map[string]time.Time{}
		for name, p := range s.partitions {
			if p.Leader < 0 {
				w.leaderless[name] = s.at
			}
		}
		return nil
	}
	var out []event
	add := func(kind, subject, from, to string) *event {
		out = append(out, event{APIVersion: apiVersion, Time: s.at.Format("2006-01-02T15:04:05.000Z07:00"), Event: kind, Subject: subject, From: from, To: to})
		return &out[len(out)-1]
	}
	if last.controller != s.controller {
		add("controller", "cluster", nodeName(last.controller), nodeName(s.controller))
	}
	for _, id := range keysOf(last.nodes, s.nodes) {
		if a, b := last.nodes[id], s.nodes[id]; a != b {
			add("node", "node "+strconv.Itoa(int(id)), dash(a), dash(b))
		}
	}
	for _, name := range keysOf(last.partitions, s.partitions) {
		a, before := last.partitions[name]
		b, now := s.partitions[name]
		switch {
		case !now:
			add("topic", name, "there", "deleted")
			delete(w.leaderless, name)
			continue
		case !before:
			add("topic", name, "-", "created")
			continue
		}
		if a.Leader != b.Leader || a.LeaderEpoch != b.LeaderEpoch {
			e := add("leader", name, nodeName(a.Leader), nodeName(b.Leader))
			e.LeaderEpoch = &b.LeaderEpoch
			if b.Leader < 0 {
				if _, ok := w.leaderless[name]; !ok {
					w.leaderless[name] = s.at
				}
			} else if since, ok := w.leaderless[name]; ok {
				gap := s.at.Sub(since).Seconds()
				e.Unavailable = &gap
				delete(w.leaderless, name)
			}
		}
		if !slices.Equal(a.ISR, b.ISR) {
			add("isr", name, ids(a.ISR), ids(b.ISR))
		}
	}
	return out
}

func nodeName(id int32) string {
	if id < 0 {
		return "none"
	}
	return strconv.Itoa(int(id))
}

// keysOf lists the keys of both maps in order.
func keysOf[K int32 | string, V any](a, b map[K]V) []K {
	var out []K
	for k := range a {
		out = append(out, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func newWatchCommand(a *app) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{Use: "watch", Short: "Print changes of nodes, leaders and in-sync replicas as they happen", Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.output == "help" {
				return writeShape(a.out, event{})
			}
			if interval < 10*time.Millisecond {
				return usage("--interval must be at least 10ms")
			}
			return a.watchCluster(cmd.Context(), interval)
		}}
	cmd.Flags().DurationVar(&interval, "interval", 250*time.Millisecond, "How often to look")
	return cmd
}

func (a *app) watchCluster(ctx context.Context, interval time.Duration) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var w watcher
	lost := false
	for first := true; ; first = false {
		s, err := c.snapshot(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && first:
			return err
		case err != nil:
			if !lost {
				a.note("no answer: %v", describe(err))
			}
			lost = true
		default:
			if lost {
				a.note("answers again")
			}
			lost = false
			if first {
				a.note("watching %s and %s; ctrl-c ends", count(len(s.nodes), "node"), count(len(s.partitions), "partition"))
			}
			for _, e := range w.next(s) {
				if err := a.printEvent(e, s.at); err != nil {
					return err
				}
			}
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *app) printEvent(e event, at time.Time) error {
	if a.output == "json" {
		return writeJSON(a.out, e, true)
	}
	if a.output == "yaml" {
		return writeYAML(a.out, []event{e})
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", at.Format("15:04:05.000"), e.line())
	return err
}

// snapshot asks one node for all that cluster watch compares.
func (c *client) snapshot(ctx context.Context) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, c.app.timeout)
	defer cancel()
	cv, err := c.cluster(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := c.describePartitions(ctx, nil)
	if err != nil {
		return nil, err
	}
	s := &snapshot{at: time.Now(), controller: cv.Controller, nodes: map[int32]string{}, partitions: map[string]partitionView{}}
	for _, n := range cv.Nodes {
		s.nodes[n.ID] = n.State
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			s.partitions[t.Name+"/"+strconv.Itoa(int(p.Partition))] = p
		}
	}
	return s, nil
}
