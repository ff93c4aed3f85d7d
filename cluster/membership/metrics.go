package membership

import "github.com/prometheus/client_golang/prometheus"

// metrics of gossip.
type metrics struct {
	m        *Membership
	members  *prometheus.Desc
	flaps    *prometheus.CounterVec
	registry prometheus.Registerer
}

func newMetrics(m *Membership) *metrics {
	return &metrics{
		m:       m,
		members: prometheus.NewDesc("cordwood_gossip_members", "Nodes that gossip shows in each state, this one included.", []string{"state"}, nil),
		flaps:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cordwood_gossip_flaps_total", Help: "Times that gossip declared a live node dead."}, []string{"node"}),
	}
}

// Describe and Collect make the number of members a metric that is read when it is scraped.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.members }

func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for state, n := range m.m.table.count() {
		ch <- prometheus.MustNewConstMetric(m.members, prometheus.GaugeValue, float64(n), string(state))
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if err := r.Register(m); err != nil {
		return err
	}
	if err := r.Register(m.flaps); err != nil {
		r.Unregister(m)
		return err
	}
	m.registry = r
	return nil
}

func (m *metrics) unregister() {
	if m.registry == nil {
		return
	}
	m.registry.Unregister(m)
	m.registry.Unregister(m.flaps)
}
