// Package admin is a node's HTTP side: health checks, metrics and, when switched on, profiles. It sees the node through
// the functions in Options and imports nothing of the project.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of the server. They are not configured: nothing but health checks, scrapers and people comes here.
const (
	connectionsMax    = 64
	headerBytesMax    = 16 << 10
	headerTimeout     = 5 * time.Second
	requestTimeout    = 10 * time.Second
	idleTimeout       = time.Minute
	answerTimeout     = 90 * time.Second // a CPU profile takes 30 s when nobody says otherwise
	checkTimeout      = 2 * time.Second
	scrapesInFlight   = 4
	closeGraceTimeout = 2 * time.Second
)

// Options is what the server needs. Bind, Ready, Metrics and Logger must be given.
type Options struct {
	Bind    string // host:port
	Pprof   bool   // serve /debug/pprof as well
	Metrics prometheus.Gatherer
	// Ready lists the checks of readiness. It is called from several goroutines, must return soon after ctx ends, and
	// must not depend on the state of other nodes but through warnings.
	Ready  func(ctx context.Context) []Check
	Logger *slog.Logger
}

// Server serves HTTP until Close.
type Server struct {
	http     *http.Server
	listener net.Listener
	served   chan struct{}
	handlers sync.WaitGroup
	opt      Options
}

// Listen binds the address and starts to serve. An error names the configuration key and the address.
func Listen(opt Options) (*Server, error) {
	l, err := net.Listen("tcp", opt.Bind)
	if err != nil {
		return nil, fmt.Errorf("http.bind %s: %w", opt.Bind, err)
	}
	s := &Server{listener: newLimitListener(l, connectionsMax), served: make(chan struct{}), opt: opt}
	s.http = &http.Server{
		Handler:           s.counted(s.routes()),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ErrorLog:          slog.NewLogLogger(opt.Logger.Handler(), slog.LevelDebug), // what clients do wrong is no error of ours
	}
	go s.serve()
	return s, nil
}

// Addr is the address that was bound.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops accepting, gives requests under way two seconds, and returns when no goroutine of the server is left.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGraceTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close() // ends the contexts of the requests still under way
	}
	<-s.served
	s.handlers.Wait()
	return err
}

func (s *Server) serve() {
	defer close(s.served)
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.opt.Logger.Error("http server stopped", "addr", s.opt.Bind, "err", err)
	}
}

// counted lets Close wait for handlers: http.Server's Close does not.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /healthz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.opt.Metrics, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(s.opt.Logger.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesInFlight,
	}))
	if s.opt.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}
