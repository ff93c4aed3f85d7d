package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/integration/history"
	"cordwood/integration/nemesis"
)

// Commands are what a user says to do to the nodes of a cluster that runs already; {id} stands for the node's id. An empty
// one cannot be done.
type Commands struct{ Kill, Start, Pause, Resume string }

// Existing is a cluster that somebody else runs, of any make that speaks the Kafka protocol. Its disks and network are out of
// reach; what is done to its nodes, commands do.
type Existing struct {
	seeds    []string
	commands Commands
	keep     bool

	mu      sync.Mutex
	address map[int]string // of each node, for clients
	down    map[int]bool   // killed by us and not started again
	paused  map[int]bool
	foreign bool
	made    []string // topics of the run

	starting map[int]chan error // start commands whose end nobody has seen, by node
	starts   sync.WaitGroup     // those that go on
}

var _ Place = (*Existing)(nil)

// NewExisting makes a place of a cluster by addresses of nodes. With keep the topics of the run stay.
func NewExisting(seeds []string, commands Commands, keep bool) *Existing {
	return &Existing{seeds: seeds, commands: commands, keep: keep, address: map[int]string{}, down: map[int]bool{}, paused: map[int]bool{},
		starting: map[int]chan error{}}
}

// ErrUnreachable is a cluster of which no node answers.
var ErrUnreachable = errors.New("no node of the cluster answers")

// TopicPrefix begins the name of every topic of a run.
const TopicPrefix = "torture-"

const askWithin = 10 * time.Second

func (e *Existing) admin() (*kadm.Client, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(e.seeds...), kgo.DialTimeout(2*time.Second), kgo.RetryTimeout(askWithin))
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(c), nil
}

// Start implements Place: it learns who the nodes are. Topics of an earlier run are an error: they are somebody's evidence.
func (e *Existing) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	admin, err := e.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	m, err := admin.Metadata(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	for _, name := range m.Topics.Names() {
		if strings.HasPrefix(name, TopicPrefix) {
			return fmt.Errorf("topic %s is there already: delete what an earlier run kept", name)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range m.Brokers {
		e.address[int(b.NodeID)] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	e.foreign = !knowsRules(ctx, admin)
	return nil
}

// knowsRules says whether the cluster has our commit rules: it describes a setting of that name.
func knowsRules(ctx context.Context, admin *kadm.Client) bool {
	const probe = TopicPrefix + "probe"
	value := "isr"
	r, err := admin.ValidateCreateTopics(ctx, 1, 1, map[string]*string{"commit.rule": &value}, probe)
	return err == nil && r[probe].Err == nil
}

// Bootstrap implements Place.
func (e *Existing) Bootstrap() []string { return e.seeds }

// Size implements Place.
func (e *Existing) Size() int { return len(existingNodes{e}.Nodes()) }

// Made implements Place.
func (e *Existing) Made(topics []string) { e.made = topics }

// Foreign implements Place.
func (e *Existing) Foreign() bool { return e.foreign }

// Nemesis implements Place.
func (e *Existing) Nemesis() nemesis.Cluster { return existingNodes{e} }

// Able implements Place.
func (e *Existing) Able(name string) error {
	needs := map[string][]string{
		"kill": {"kill", "start"}, "killall": {"kill", "start"}, "pause": {"pause", "resume"},
	}[name]
	if needs == nil {
		return fmt.Errorf("%w: it is beyond what commands can do to another's cluster", nemesis.ErrCannot)
	}
	for _, n := range needs {
		if e.command(n) == "" {
			return fmt.Errorf("%w: %s needs --%s-cmd", nemesis.ErrCannot, name, n)
		}
	}
	return nil
}

func (e *Existing) command(name string) string {
	return map[string]string{"kill": e.commands.Kill, "start": e.commands.Start, "pause": e.commands.Pause, "resume": e.commands.Resume}[name]
}

// Settled implements Place.
func (e *Existing) Settled(ctx context.Context) error { return existingNodes{e}.Settled(ctx) }

// Collect implements Place. Nobody here sees the nodes' disks or logs.
func (e *Existing) Collect(*history.Header) ([]history.Copy, []history.Loss, error) {
	return nil, nil, nil
}

// Close implements Place: nodes that are still down or stand still are brought back, and the topics of the run go.
func (e *Existing) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	n := existingNodes{e}
	var errs []error
	for _, id := range n.Nodes() {
		if e.isPaused(id) {
			errs = append(errs, n.Resume(ctx, id))
		}
		errs = append(errs, n.started(id))
		if !n.Running(id) {
			errs = append(errs, n.Start(ctx, id))
		}
	}
	e.starts.Wait() // each is bounded
	for _, id := range n.Nodes() {
		errs = append(errs, n.started(id))
	}
	if !e.keep && len(e.made) > 0 {
		errs = append(errs, e.remove(ctx))
	}
	return errors.Join(errs...)
}

// closeWithin bounds the end of a run on another's cluster.
const closeWithin = 3 * time.Minute

func (e *Existing) remove(ctx context.Context) error {
	admin, err := e.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	r, err := admin.DeleteTopics(ctx, e.made...)
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		return fmt.Errorf("delete the topics of the run: %w", err)
	}
	return nil
}
