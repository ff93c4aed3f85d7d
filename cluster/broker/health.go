package broker

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport/admin"
	"cordwood/transport/rpc"
)

// readiness lists what makes this node ready to serve clients. It depends on no peer: that no metadata leader is known is
// a warning only, so that an orchestrator never takes a cluster apart during an election.
func (b *Broker) readiness(ctx context.Context) []admin.Check {
	me := b.controller.Image().Broker(b.cfg.Node.ID)
	_, _, offline, full := b.dir.State()
	checks := []admin.Check{
		check("registered", b.registered.Load(), "metadata is not replayed to this process's registration yet"),
		check("unfenced", me.Alive() && me.Epoch == b.session.epoch.Load(), "the controller has this node fenced"),
		check("directory", !offline, "the data directory is offline"),
		{Name: "disk", OK: !full, Warning: true, Detail: detail(!full, "the disk is full: writes are refused")},
		b.servesClients(ctx),
		{Name: "metadata-leader", OK: b.controller.ControllerID() != metadata.NoNode, Warning: true,
			Detail: detail(b.controller.ControllerID() != metadata.NoNode, "no metadata leader is known")},
	}
	return checks
}

func check(name string, ok bool, why string) admin.Check {
	return admin.Check{Name: name, OK: ok, Detail: detail(ok, why)}
}

func detail(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

// servesClients asks every listener for Metadata, as a client would.
func (b *Broker) servesClients(ctx context.Context) admin.Check {
	c := admin.Check{Name: "listeners"}
	if !b.opened.Load() {
		c.Detail = "the clients' listeners are not open yet"
		return c
	}
	var failed []string
	for name := range b.cfg.Listeners {
		if name == b.cfg.InterBrokerListener {
			continue // other nodes tell when it fails
		}
		if err := b.askMetadata(ctx, name); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", name, err))
		}
	}
	c.OK = len(failed) == 0
	c.Detail = strings.Join(failed, "; ")
	return c
}

func (b *Broker) askMetadata(ctx context.Context, listener string) error {
	addr := loopback(b.server.Addr(listener))
	conn, err := rpc.Dial(ctx, addr, rpc.Options{ClientID: "readiness"})
	if err != nil {
		return err
	}
	defer conn.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(12)
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := typed[*kmsg.MetadataResponse](conn.Do(ctx, req))
	if err != nil {
		return err
	}
	if len(resp.Brokers) == 0 {
		return fmt.Errorf("metadata names no node")
	}
	return nil
}

// loopback is where this machine reaches a bound address: an unspecified host is its own.
func loopback(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || t == nil {
		return ""
	}
	host := t.IP.String()
	if t.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(t.Port))
}

// buildInfo is a gauge of 1 that says what runs.
func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "cordwood_build_info", Help: "What runs; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()}})
	g.Set(1)
	return g
}

// storageMetrics are the families of a directory that the logs tell of.
func storageMetrics(r prometheus.Registerer, dir string) (fsync prometheus.Observer, recovery prometheus.Gauge) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cordwood_fsync_seconds", Help: "Time of an fsync of a segment.",
		Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10}, ConstLabels: prometheus.Labels{"dir": dir}})
	recovery = prometheus.NewGauge(prometheus.GaugeOpts{Name: "cordwood_log_recovery_seconds",
		Help: "Time that this process took to open and recover the logs it found."})
	r.MustRegister(h, recovery)
	return h, recovery
}
