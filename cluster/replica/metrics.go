package replica

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
)

// seriesMax bounds the partitions that have series of their own; above it only sums are kept.
const seriesMax = 5000

// counts are the manager's counters.
type counts struct {
	cut        atomic.Int64 // records cut from logs that claimed nothing of them
	cutBelowHW atomic.Int64 // after a flagged election
	shrinks    atomic.Int64 // ISR changes of partitions led here
	expands    atomic.Int64
}

func (m *Manager) truncated(records int64, flagged bool) {
	if flagged {
		m.counts.cutBelowHW.Add(records)
	} else {
		m.counts.cut.Add(records)
	}
}

func (m *Manager) resized(by int) {
	switch {
	case by < 0:
		m.counts.shrinks.Add(1)
	case by > 0:
		m.counts.expands.Add(1)
	}
}

// collector reads the hosted partitions at scrape time, so that nothing is kept up to date for a metric.
type collector struct {
	m *Manager

	start, hw, end, size, isr, replicas, epoch                             *prometheus.Desc
	hosted, leading, under, underMin, offline, quarantined                 *prometheus.Desc
	truncated, isrChanges, dropped, storageFree, storageOffline, clockHeld *prometheus.Desc
	raised, wouldBe, completedBy, unmeasured                               *prometheus.Desc
}

func (m *Manager) register(r prometheus.Registerer) error {
	per := []string{"topic", "partition"}
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("cordwood_"+name, help, labels, nil)
	}
	return r.Register(&collector{
		m:              m,
		start:          d("partition_log_start_offset", "First offset of this node's replica.", per...),
		hw:             d("partition_high_watermark", "End of the committed records as this node's replica knows it.", per...),
		end:            d("partition_log_end_offset", "Next offset of this node's replica.", per...),
		size:           d("partition_size_bytes", "Bytes of this node's replica.", per...),
		isr:            d("partition_isr_size", "In-sync replicas, told by the leader.", per...),
		replicas:       d("partition_replicas", "Replicas, told by the leader.", per...),
		epoch:          d("partition_leader_epoch", "Leader epoch, told by the leader.", per...),
		hosted:         d("replicas", "Replicas on this node."),
		leading:        d("leaders", "Partitions that this node leads."),
		under:          d("under_replicated_partitions", "Partitions led here with fewer in-sync replicas than replicas."),
		underMin:       d("under_min_isr_partitions", "Partitions led here with fewer in-sync replicas than min.insync.replicas."),
		offline:        d("replicas_failed", "Replicas on this node whose log refuses work."),
		quarantined:    d("replicas_quarantined", "Replicas on this node that wait for an operator."),
		truncated:      d("truncated_records_total", "Records cut from followers' logs; below_hw=true may have been committed, after a flagged election.", "below_hw"),
		isrChanges:     d("isr_changes_total", "ISR changes of partitions while they were led here.", "change"),
		raised:         d("produce_acks_raised_total", "Batches whose topic waits for more acknowledgement than their producer asked for, by topic, while hosted here.", "topic"),
		wouldBe:        d("produce_ack_would_be_seconds", "Time from a batch taken up to the moment that it would have been acknowledged under each rule, for the same batches.", "rule"),
		completedBy:    d("ack_completed_by_total", "Batches committed when this replica counted them; record: when the partition's record changed.", "replica"),
		unmeasured:     d("produce_ack_unmeasured_total", "Batches not measured because too many before them waited for one of the rules."),
		dropped:        d("metrics_dropped_series", "Partitions without series of their own, because there are too many."),
		storageFree:    d("storage_free_bytes", "Free bytes of the log directory's file system.", "dir"),
		clockHeld:      d("clock_ahead_seconds", "How far the wall clock has jumped ahead of what records' ages are judged by; it is believed after a restart."),
		storageOffline: d("storage_state", "State of the log directory: 0 serves, 1 full, 2 offline.", "dir"),
	})
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	parts := c.m.all()
	single := len(parts) <= seriesMax
	var leading, under, underMin, failed, quarantined int
	raised := make(map[string]int64)
	for _, p := range parts {
		p.mu.Lock()
		if p.raised > 0 {
			raised[p.topic] += p.raised
		}
		rec, leads := p.rec, p.leader != nil
		if p.failed != nil {
			failed++
		}
		if p.quarantined != "" {
			quarantined++
		}
		p.mu.Unlock()
		if leads {
			leading++
			if len(rec.ISR) < len(rec.Replicas) {
				under++
			}
			if len(rec.ISR) < int(rec.MinISR) {
				underMin++
			}
		}
		if single {
			c.one(p, rec, leads, gauge)
		}
	}
	gauge(c.hosted, float64(len(parts)))
	gauge(c.leading, float64(leading))
	gauge(c.under, float64(under))
	gauge(c.underMin, float64(underMin))
	gauge(c.offline, float64(failed))
	gauge(c.quarantined, float64(quarantined))
	if len(raised) <= seriesMax {
		for topic, n := range raised {
			ch <- prometheus.MustNewConstMetric(c.raised, prometheus.CounterValue, float64(n), topic)
		}
	}
	c.latency(ch)
	dropped := 0
	if !single {
		dropped = len(parts)
	}
	gauge(c.dropped, float64(dropped))
	n := &c.m.counts
	for _, x := range []struct {
		d     *prometheus.Desc
		v     int64
		label string
	}{{c.truncated, n.cut.Load(), "false"}, {c.truncated, n.cutBelowHW.Load(), "true"}, {c.isrChanges, n.shrinks.Load(), "shrink"}, {c.isrChanges, n.expands.Load(), "expand"}} {
		ch <- prometheus.MustNewConstMetric(x.d, prometheus.CounterValue, float64(x.v), x.label)
	}
	gauge(c.clockHeld, c.m.opt.Dir.ClockHeld().Seconds())
	for _, s := range c.m.Dirs() {
		if s.Free >= 0 {
			gauge(c.storageFree, float64(s.Free), s.Path)
		}
		state := 0.0
		switch {
		case s.Offline:
			state = 2
		case s.Full:
			state = 1
		}
		gauge(c.storageOffline, state, s.Path)
	}
}

func (c *collector) one(p *Partition, rec *metadata.Partition, leads bool, gauge func(*prometheus.Desc, float64, ...string)) {
	number := strconv.Itoa(int(p.id.Partition))
	gauge(c.start, float64(p.log.StartOffset()), p.topic, number)
	gauge(c.hw, float64(p.log.HighWatermark()), p.topic, number)
	gauge(c.end, float64(p.log.EndOffset()), p.topic, number)
	gauge(c.size, float64(p.log.Size()), p.topic, number)
	if leads {
		gauge(c.isr, float64(len(rec.ISR)), p.topic, number)
		gauge(c.replicas, float64(len(rec.Replicas)), p.topic, number)
		gauge(c.epoch, float64(rec.LeaderEpoch), p.topic, number)
	}
}

// latency tells what leaders here measured of acknowledgements.
func (c *collector) latency(ch chan<- prometheus.Metric) {
	l := c.m.allLatency()
	for _, x := range []struct {
		rule string
		h    *partition.AckHistogram
	}{{"leader", &l.Leader}, {"quorum", &l.Quorum}, {"isr", &l.ISR}} {
		buckets, n := make(map[float64]uint64, len(partition.AckBounds)), uint64(0)
		for i, bound := range partition.AckBounds {
			n += uint64(x.h.Counts[i])
			buckets[bound.Seconds()] = n
		}
		n += uint64(x.h.Counts[len(partition.AckBounds)])
		ch <- prometheus.MustNewConstHistogram(c.wouldBe, n, x.h.Sum.Seconds(), buckets, x.rule)
	}
	for id, n := range l.CompletedBy {
		replica := "record"
		if id != partition.ByRecord {
			replica = strconv.Itoa(int(id))
		}
		ch <- prometheus.MustNewConstMetric(c.completedBy, prometheus.CounterValue, float64(n), replica)
	}
	ch <- prometheus.MustNewConstMetric(c.unmeasured, prometheus.CounterValue, float64(l.Skipped))
}
