package admin

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, opt Options) (base string) {
	t.Helper()
	opt.Bind = "127.0.0.1:0"
	opt.Logger = slog.New(slog.DiscardHandler)
	if opt.Metrics == nil {
		opt.Metrics = prometheus.NewRegistry()
	}
	s, err := Listen(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestReadyzListsItsChecksAndFailsOnOneThatIsNoWarning(t *testing.T) {
	var checks atomic.Pointer[[]Check]
	base := start(t, Options{Ready: func(context.Context) []Check { return *checks.Load() }})
	for _, c := range []struct {
		name   string
		checks []Check
		status int
		body   string
	}{
		{"all well", []Check{{Name: "registered", OK: true}}, 200, `{"apiVersion":"v1","ready":true,"checks":[{"name":"registered","ok":true}]}`},
		{"a warning", []Check{{Name: "controller", Warning: true, Detail: "unknown"}}, 200, `{"apiVersion":"v1","ready":true,"checks":[{"name":"controller","ok":false,"warning":true,"detail":"unknown"}]}`},
		{"fenced", []Check{{Name: "unfenced", Detail: "fenced"}}, 503, `{"apiVersion":"v1","ready":false,"checks":[{"name":"unfenced","ok":false,"detail":"fenced"}]}`},
		{"none", nil, 200, `{"apiVersion":"v1","ready":true,"checks":[]}`},
	} {
		checks.Store(&c.checks)
		for _, path := range []string{"/readyz", "/healthz"} {
			if status, body := get(t, base+path); status != c.status || strings.TrimSpace(body) != c.body {
				t.Errorf("%s %s: %d %s", c.name, path, status, body)
			}
		}
		if status, _ := get(t, base+"/livez"); status != 200 {
			t.Errorf("%s: livez %d", c.name, status)
		}
	}
}

func TestAChecksDeadlineIsBoundedAndLivezDoesNotWait(t *testing.T) {
	deadline := make(chan bool, 1)
	base := start(t, Options{Ready: func(ctx context.Context) []Check {
		d, ok := ctx.Deadline()
		deadline <- ok && time.Until(d) <= checkTimeout
		return nil
	}})
	get(t, base+"/readyz")
	if !<-deadline {
		t.Error("the check had no deadline")
	}
}

func TestMetricsComeFromTheGivenRegistryAndProfilesOnlyWhenOn(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "cordwood_things_total", Help: "Things."})
	reg.MustRegister(c)
	c.Inc()
	ready := func(context.Context) []Check { return nil }
	off := start(t, Options{Metrics: reg, Ready: ready})
	on := start(t, Options{Ready: ready, Pprof: true})
	if status, body := get(t, off+"/metrics"); status != 200 || !strings.Contains(body, "cordwood_things_total 1") || strings.Contains(body, "go_goroutines") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get(t, off+"/debug/pprof/"); status != 404 {
		t.Errorf("profiles while off: %d", status)
	}
	if status, body := get(t, on+"/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("profiles while on: %d", status)
	}
	r, err := http.Post(off+"/readyz", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", r.StatusCode)
	}
}

func TestCloseWaitsForHandlers(t *testing.T) {
	entered, left := make(chan struct{}), atomic.Bool{}
	s, err := Listen(Options{Bind: "127.0.0.1:0", Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Ready: func(ctx context.Context) []Check {
		close(entered)
		<-ctx.Done()
		left.Store(true)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if r, err := http.Get("http://" + s.Addr().String() + "/readyz"); err == nil {
			var body Readiness
			_ = json.NewDecoder(r.Body).Decode(&body)
			r.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	<-entered
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !left.Load() {
		t.Error("Close returned while a handler ran")
	}
	<-asked
}

func TestAPortInUseNamesTheKeyAndTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Listen(Options{Bind: l.Addr().String(), Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "http.bind "+l.Addr().String()) {
		t.Error(err)
	}
}

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimitListener(inner, 1)
	defer l.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	dial()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		second <- c
	}()
	select {
	case <-second:
		t.Fatal("accepted beyond the limit")
	case <-time.After(20 * time.Millisecond):
	}
	first.Close()
	first.Close()
	c := <-second
	if c == nil {
		t.Fatal("the waiting connection was not accepted")
	}
	c.Close()
}
