package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Options.
const (
	DefaultRequestMaxBytes = 100 << 20
	DefaultConnectionsMax  = 10_000
	DefaultIdleMax         = 10 * time.Minute
	DefaultInflightBytes   = 512 << 20
	DefaultConnectionBytes = 64 << 20
	DefaultPendingMax      = 64
	DefaultPatience        = 30 * time.Second

	// reservedConnections are those of the internal listener that clients cannot use up.
	reservedConnections = 256
	// acceptPause is the wait after a failed accept (no file descriptor left, most often).
	acceptPause = 50 * time.Millisecond
)

// Listener is one named address that clients connect to.
type Listener struct {
	Name     string
	Bind     string
	Internal bool // requests between nodes are served here
}

// Options configure a Server. Zero values mean the defaults.
type Options struct {
	Listeners []Listener
	Table     Table
	Handler   Handler

	RequestMaxBytes int64         // the largest frame
	ConnectionsMax  int           // of all listeners together; the internal one has some more
	IdleMax         time.Duration // a connection that asks nothing for so long is closed
	InflightBytes   int64         // bytes of requests and answers that all connections hold
	ConnectionBytes int64         // of them, what one connection's unanswered requests may hold; one request always may
	PendingMax      int           // unanswered requests of one connection
	Patience        time.Duration // for a started frame, for a MiB of an answer to be taken, for memory

	// Hold keeps the clients' listeners bound without accepting until Open: a node claims its ports at once and serves
	// when it is ready.
	Hold bool
	// Secret is what nodes prove to each other (see Prove). Without one every connection of an internal listener is
	// taken for a node's.
	Secret     []byte
	Registerer prometheus.Registerer // nil: metrics are kept but not shown
	Logger     *slog.Logger
}

// Server accepts connections and answers them with its Handler.
type Server struct {
	opt      Options
	budget   *budget
	encoders chan struct{} // tokens to encode an answer: bounds what is encoded before it is counted
	metrics  *metrics
	faults   *faultLog
	log      *slog.Logger
	ctx      context.Context
	cancel   context.CancelFunc
	nextID   atomic.Uint64

	mu        sync.Mutex
	listeners []*listener
	conns     map[*conn]struct{}
	draining  bool
	work      sync.WaitGroup // accept loops and connections
}

type listener struct {
	Listener
	ln net.Listener
}

// NewServer checks the options. Nothing is bound before Listen.
func NewServer(opt Options) (*Server, error) {
	if opt.Table == nil || opt.Handler == nil {
		return nil, errors.New("transport: a server needs a table and a handler")
	}
	names := map[string]bool{}
	for _, l := range opt.Listeners {
		if names[l.Name] {
			return nil, fmt.Errorf("transport: two listeners are named %q", l.Name)
		}
		names[l.Name] = true
	}
	opt.RequestMaxBytes = orDefault(opt.RequestMaxBytes, DefaultRequestMaxBytes)
	opt.ConnectionsMax = orDefault(opt.ConnectionsMax, DefaultConnectionsMax)
	opt.IdleMax = orDefault(opt.IdleMax, DefaultIdleMax)
	opt.InflightBytes = orDefault(opt.InflightBytes, DefaultInflightBytes)
	opt.ConnectionBytes = orDefault(opt.ConnectionBytes, DefaultConnectionBytes)
	opt.PendingMax = orDefault(opt.PendingMax, DefaultPendingMax)
	opt.Patience = orDefault(opt.Patience, DefaultPatience)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		opt: opt, budget: newBudget(opt.InflightBytes), encoders: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
		log: opt.Logger, faults: newFaultLog(opt.Logger), conns: map[*conn]struct{}{},
	}
	var err error
	if s.metrics, err = newMetrics(opt.Registerer, s.budget); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// BindError is of a listener that could not be bound.
type BindError struct {
	Listener, Address string
	Err               error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("listener %s on %s: %v", e.Listener, e.Address, e.Err)
}
func (e *BindError) Unwrap() error { return e.Err }

// Listen binds all listeners and begins to accept, with Hold on the internal ones only. On an error none stays bound.
func (s *Server) Listen(ctx context.Context) error {
	var lc net.ListenConfig
	var bound []*listener
	for _, l := range s.opt.Listeners {
		ln, err := lc.Listen(ctx, "tcp", l.Bind)
		if err != nil {
			for _, b := range bound {
				_ = b.ln.Close()
			}
			return &BindError{Listener: l.Name, Address: l.Bind, Err: err}
		}
		bound = append(bound, &listener{Listener: l, ln: ln})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = bound
	for _, l := range bound {
		if l.Internal || !s.opt.Hold {
			s.work.Add(1)
			go s.accept(l)
		}
	}
	return nil
}

// Open begins to accept on the listeners that Hold kept back. It is called once, after Listen; after Shutdown or Close
// it does nothing.
func (s *Server) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return
	}
	for _, l := range s.listeners {
		if !l.Internal && s.opt.Hold {
			s.work.Add(1)
			go s.accept(l)
		}
	}
}

// Addr is where a listener is bound, nil if there is none of this name. It differs from Bind where that asks for port 0.
func (s *Server) Addr(name string) net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.Name == name {
			return l.ln.Addr()
		}
	}
	return nil
}

// accept takes connections of one listener until it is closed.
func (s *Server) accept(l *listener) {
	defer s.work.Done()
	for {
		raw, err := l.ln.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.Warn("connection not accepted", "listener", l.Name, "err", err)
			t := time.NewTimer(acceptPause)
			select {
			case <-t.C:
				continue
			case <-s.ctx.Done():
				t.Stop()
				return
			}
		}
		s.admit(l, raw)
	}
}

// admit starts a connection if there is room for it.
func (s *Server) admit(l *listener, raw net.Conn) {
	room := s.opt.ConnectionsMax
	if l.Internal {
		room += reservedConnections
	}
	s.mu.Lock()
	if s.draining || len(s.conns) >= room {
		full := !s.draining
		s.mu.Unlock()
		_ = raw.Close()
		if full {
			s.metrics.closed.WithLabelValues("connections-max").Inc()
			s.faults.note(raw.RemoteAddr(), "connections-max", "connection refused: limits.connections_max is reached", "listener", l.Name, "max", s.opt.ConnectionsMax)
		}
		return
	}
	c := newConn(s, l, raw, s.nextID.Add(1))
	s.conns[c] = struct{}{}
	s.work.Add(1)
	s.mu.Unlock()
	s.metrics.connections.WithLabelValues(l.Name).Inc()
	go func() {
		defer s.work.Done()
		c.serve()
	}()
}

// ended is called by a connection when it has ended.
func (s *Server) ended(c *conn, err error) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.metrics.connections.WithLabelValues(c.lis.Name).Dec()
	s.metrics.closed.WithLabelValues(why(err)).Inc()
	var bad *frameError
	if errors.As(err, &bad) {
		s.metrics.badFrames.WithLabelValues(c.lis.Name, bad.reason).Inc()
		s.faults.note(c.info.Remote, bad.reason, "connection closed: "+bad.text, "listener", c.lis.Name)
	} else if errors.Is(err, errMemory) {
		s.faults.note(c.info.Remote, "memory", "connection closed: limits.inflight_bytes is used up", "listener", c.lis.Name)
	}
}

func (s *Server) observe(key int16, d time.Duration) { s.metrics.observe(key, d) }

// Shutdown stops accepting, lets every connection answer what it has read, and returns when all have ended, or closes
// them when ctx ends. It returns ctx's error in that case.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	for _, l := range s.listeners {
		_ = l.ln.Close()
	}
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
		_ = s.Close()
		<-done
		return ctx.Err()
	}
}

// Close closes listeners and connections at once and returns when their goroutines have ended.
func (s *Server) Close() error {
	s.cancel()
	s.mu.Lock()
	s.draining = true
	for _, l := range s.listeners {
		_ = l.ln.Close()
	}
	for c := range s.conns {
		c.abort()
	}
	s.mu.Unlock()
	s.work.Wait()
	return nil
}
