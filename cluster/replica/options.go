package replica

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore"
	"cordwood/logstore/record"
)

// Controller is how this node reaches the active controller.
type Controller interface {
	// AlterPartition sends proposals. Answers are looked at for metrics only: what is in force comes by records.
	AlterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error)
}

// Conn is a connection to one node that answers requests in the order they were sent. Any error ends it.
type Conn interface {
	// Start sends a request; several may be in flight.
	Start(req kmsg.Request) (Call, error)
	// Ack sends an acknowledgement, which has no answer, behind the requests started before.
	Ack(a *partition.Ack) error
	Close() error
}

// Call is a request in flight.
type Call interface {
	// Done is closed when the answer is there or never comes.
	Done() <-chan struct{}
	// Wait gives the answer, whose byte slices stay valid until Release; ctx's end ends the connection.
	Wait(ctx context.Context) (kmsg.Response, error)
	Release()
}

// Options is what a Manager needs. Zero durations and sizes take the defaults named beside them.
type Options struct {
	NodeID     int32
	Dir        *logstore.Dir
	Controller Controller
	// Dial opens a connection to a node's inter-node listener; ctx bounds the dial alone.
	Dial func(ctx context.Context, node int32) (Conn, error)
	// Config gives a topic's log settings.
	Config func(t *metadata.Topic) logstore.LogConfig

	LagMax        time.Duration // 10 s: how long an in-sync replica may stay behind
	FetchWaitMax  time.Duration // 500 ms: how long a follower's fetch is parked at its leader
	FetchMaxBytes int32         // 10 MiB: the largest answer a follower asks for
	PieceBytes    int32         // 256 KiB: the share of one partition in it
	Workers       int           // 4: logs opened and created at the same time
	// Delay is how long this node waits before it acts on a leader's answer, for tests of slow replicas; nil: not at all.
	Delay func() time.Duration
	// Sure says that this node led a partition in an epoch when the controller last answered it, and that its session lives
	// for certain: nobody else can have been elected for its silence. Any goroutine may ask; nil: always.
	Sure func(id record.PartitionID, epoch int32) bool

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

func (o *Options) defaults() {
	setDefault(&o.LagMax, 10*time.Second)
	setDefault(&o.FetchWaitMax, 500*time.Millisecond)
	setDefault(&o.FetchMaxBytes, 10<<20)
	setDefault(&o.PieceBytes, 256<<10)
	setDefault(&o.Workers, 4)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Sure == nil {
		o.Sure = func(record.PartitionID, int32) bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

func setDefault[T int | int32 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
