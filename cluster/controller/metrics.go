package controller

import (
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics of raft and of the controller. Gauges are read when they are scraped.
type metrics struct {
	fencings  prometheus.Counter
	dataLoss  prometheus.Counter
	elections *prometheus.CounterVec // by kind
	finishes  *prometheus.CounterVec // by what was changed
	all       []prometheus.Collector
	registry  prometheus.Registerer
}

func newMetrics(c *Controller) *metrics {
	gauge := func(name, help string, f func(*raft.Raft) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if !c.ready.Load() {
				return 0
			}
			return f(c.node.raft)
		})
	}
	m := &metrics{
		fencings:  prometheus.NewCounter(prometheus.CounterOpts{Name: "cordwood_controller_fencings_total", Help: "Brokers that this node, as the controller, has fenced for a lost session."}),
		dataLoss:  prometheus.NewCounter(prometheus.CounterOpts{Name: "cordwood_data_loss_possible_total", Help: "Unsafe elections made by this node as the controller: acknowledged records may be gone."}),
		elections: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cordwood_controller_elections_total", Help: "Leaders elected by proposals of this node as the controller, beside those that a fencing elects at once."}, []string{"kind"}),
	}
	m.finishes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cordwood_controller_finishes_total", Help: "Changes of partitions (of rule, durability or replicas) that were finished by proposals of this node as the controller."}, []string{"change"})
	for _, kind := range []string{kindSafe, kindPreferred, kindRelieved, kindReported, kindLastLeader, kindUnsafe} {
		m.elections.WithLabelValues(kind)
	}
	for _, change := range changes {
		m.finishes.WithLabelValues(string(change))
	}
	m.all = []prometheus.Collector{
		m.fencings, m.dataLoss, m.elections, m.finishes,
		gauge("cordwood_raft_term", "Current term of raft.", func(r *raft.Raft) float64 { return float64(r.CurrentTerm()) }),
		gauge("cordwood_raft_commit_index", "Highest committed index of raft's log.", func(r *raft.Raft) float64 { return float64(r.CommitIndex()) }),
		gauge("cordwood_raft_applied_index", "Highest applied index of raft's log.", func(r *raft.Raft) float64 { return float64(r.AppliedIndex()) }),
		gauge("cordwood_raft_last_index", "Highest index of raft's log.", func(r *raft.Raft) float64 { return float64(r.LastIndex()) }),
		gauge("cordwood_raft_last_contact_seconds", "Time since raft's leader was last heard; 0 on the leader, -1 if it never was.", lastContact),
		gauge("cordwood_raft_snapshot_bytes", "Size of the newest snapshot of the metadata.", func(*raft.Raft) float64 {
			if l, err := c.node.snapshots.List(); err == nil && len(l) > 0 {
				return float64(l[0].Size)
			}
			return 0
		}),
		gauge("cordwood_raft_snapshot_index", "Index of the newest snapshot of the metadata.", func(*raft.Raft) float64 {
			if l, err := c.node.snapshots.List(); err == nil && len(l) > 0 {
				return float64(l[0].Index)
			}
			return 0
		}),
		gauge("cordwood_raft_leader_known", "1 while this node knows a live leader of raft.", func(*raft.Raft) float64 { return truth(c.ControllerID() >= 0) }),
		gauge("cordwood_controller_active", "1 on the node that is the controller.", func(*raft.Raft) float64 { return truth(c.IsController()) }),
		gauge("cordwood_controller_reassignments", "Partitions whose replicas are being changed; 0 where this node is not the controller.", func(*raft.Raft) float64 {
			if r := c.active(); r != nil {
				return float64(r.duties.underWay())
			}
			return 0
		}),
		gauge("cordwood_controller_leaderless_partitions", "Partitions without a leader, in this node's image.", func(*raft.Raft) float64 { return float64(c.Image().LeaderlessCount()) }),
	}
	return m
}

func lastContact(r *raft.Raft) float64 {
	if r.State() == raft.Leader {
		return 0
	}
	t := r.LastContact()
	if t.IsZero() {
		return -1
	}
	return time.Since(t).Seconds()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *metrics) register(r prometheus.Registerer) error {
	for i, c := range m.all {
		if err := r.Register(c); err != nil {
			for _, done := range m.all[:i] {
				r.Unregister(done)
			}
			return err
		}
	}
	m.registry = r
	return nil
}

func (m *metrics) unregister() {
	if m.registry == nil {
		return
	}
	for _, c := range m.all {
		m.registry.Unregister(c)
	}
}
