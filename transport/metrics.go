package transport

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metrics are the families of connections and requests.
type metrics struct {
	connections *prometheus.GaugeVec   // by listener
	closed      *prometheus.CounterVec // by reason
	badFrames   *prometheus.CounterVec // by listener and reason
	errors      *prometheus.CounterVec // by API and Kafka's name of the error
	seconds     *prometheus.HistogramVec
	byKey       [kmsg.MaxKey + 1]prometheus.Observer
}

func newMetrics(reg prometheus.Registerer, b *budget) (*metrics, error) {
	m := &metrics{
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cordwood_connections", Help: "Open connections.",
		}, []string{"listener"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cordwood_connections_closed_total", Help: "Connections that ended, by reason.",
		}, []string{"reason"}),
		badFrames: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cordwood_bad_frames_total", Help: "Frames that no request could be read from; each ended its connection.",
		}, []string{"listener", "reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cordwood_request_errors_total", Help: "Errors told in answers, one for each topic, partition or other item that has one.",
		}, []string{"api", "error"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cordwood_request_seconds", Help: "Time from a request read to its answer sent, waiting included.",
			Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30},
		}, []string{"api"}),
	}
	for key := range m.byKey {
		// Only requests that are asked get a series: the histogram makes it at the first observation.
		m.byKey[key] = lazy{m.seconds, kmsg.NameForKey(int16(key))}
	}
	if reg == nil {
		return m, nil
	}
	inflight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cordwood_inflight_bytes", Help: "Bytes of requests and answers that connections hold.",
	}, func() float64 { return float64(b.held()) })
	for _, c := range []prometheus.Collector{m.connections, m.closed, m.badFrames, m.errors, m.seconds, inflight} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// lazy observes a label of a histogram that is made when it is first needed.
type lazy struct {
	vec  *prometheus.HistogramVec
	name string
}

func (l lazy) Observe(v float64) { l.vec.WithLabelValues(l.name).Observe(v) }

func (m *metrics) observe(key int16, d time.Duration) {
	if key >= 0 && int(key) < len(m.byKey) {
		m.byKey[key].Observe(d.Seconds())
	}
}
