package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/logstore/vfs"
)

func TestHealthLocalReadsTheAddressFromTheSameConfigurationAsServe(t *testing.T) {
	body, status := `{"apiVersion":"v1","ready":true,"checks":[{"name":"registered","ok":true},{"name":"controller","ok":false,"warning":true,"detail":"unknown"}]}`, 200
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	})
	s := &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(l)
	}()
	defer func() {
		s.Close()
		<-served
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	file := filepath.Join(t.TempDir(), "cordwood.yaml")
	if err := os.WriteFile(file, []byte("http: { bind: \"0.0.0.0:"+port+"\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(code int, want string) {
		t.Helper()
		if r := cordwood(t, "", "", "health", "--local", "--config", file); r.code != code || !strings.Contains(r.out, want) {
			t.Errorf("%+v", r)
		}
	}
	ask(exitDone, "HEALTHY")
	body, status = `{"apiVersion":"v1","ready":false,"checks":[{"name":"unfenced","ok":false,"detail":"the controller has fenced this node"}]}`, 503
	ask(exitUnhealthy, "the controller has fenced this node")
	body, status = "404 page not found", 404
	ask(exitUnhealthy, "but not as a node does")
	t.Setenv("CORDWOOD_HTTP_BIND", "127.0.0.1:1")
	ask(exitUnhealthy, "connection refused")
	t.Setenv("CORDWOOD_HTTP_BIND", "nonsense")
	if r := cordwood(t, "", "", "health", "--local", "--config", file); r.code != exitConfig {
		t.Errorf("%+v", r)
	}
}

func TestDialableTurnsWildcardsIntoLoopback(t *testing.T) {
	for in, want := range map[string]string{"0.0.0.0:80": "127.0.0.1:80", "[::]:80": "[::1]:80", ":80": "127.0.0.1:80", "10.0.0.1:80": "10.0.0.1:80", "n1:80": "n1:80"} {
		if got := dialable(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestResetWipesOnlyADataDirectoryThatNobodyUses(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("precious/file", "x")
	if r := cordwood(t, "", "", "node", "reset", "--data", dir, "--yes"); r.code != exitRefused || !strings.Contains(r.err, "not a node's data directory") {
		t.Errorf("%+v", r)
	}
	if r := cordwood(t, "", "", "node", "reset", "--data", filepath.Join(dir, "none"), "--yes"); r.code != exitNotFound {
		t.Errorf("%+v", r)
	}
	put("meta.properties", "version=1\nnode.id=2\ncluster.id=5L6g3nShT-eMCtK--X86sw\n")
	put("orders-0/00000000000000000000.log", "x")
	if r := cordwood(t, "", "", "node", "reset", "--data", dir); r.code != exitUsage || !strings.Contains(r.err, "the data of node 2 of cluster 5L6g3nShT-eMCtK--X86sw") {
		t.Errorf("%+v", r)
	}
	if r := cordwood(t, "", "", "node", "reset", "--data", dir, "-o", "help"); r.code != exitUsage {
		t.Errorf("asking for help deletes: %+v", r)
	}
	lock, err := vfs.OS{}.Lock(filepath.Join(dir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	if r := cordwood(t, "", "", "node", "reset", "--data", dir, "--yes"); r.code != exitRefused || !strings.Contains(r.err, "in use by a running node") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "orders-0")); err != nil {
		t.Error("a refused reset deleted something")
	}
	lock.Close()
	if r := cordwood(t, "", "", "node", "reset", "--data", dir, "--yes"); r.code != exitDone || !strings.Contains(r.out, "deleted the data of node 2") {
		t.Errorf("%+v", r)
	}
	left, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() != lockFile }) {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestAnAckedFileThatCannotBeWrittenEndsTheRun(t *testing.T) {
	f := startFake(t, "127.0.0.1:0")
	f.topic("t", 1)
	if r := cordwood(t, f.addr, "", "produce", "t", "--count", "5", "--acked", filepath.Join(t.TempDir(), "none", "acked")); r.code == exitDone || !strings.Contains(r.err, "--acked") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Logf("no /dev/full here: %v", err)
		return
	}
	r := cordwood(t, f.addr, "", "produce", "t", "--count", "100000000", "--rate", "1000/s", "--acked", "/dev/full")
	if r.code != exitOther || !strings.Contains(r.err, "no space left") {
		t.Errorf("%+v", r)
	}
}

func TestWatchRepeatsAndAppendsJSONLines(t *testing.T) {
	f := threeNodes(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := 0
	inner := f.handlers[kmsg.DescribeCluster.Int16()]
	f.handle(kmsg.DescribeCluster, func(r kmsg.Request) kmsg.Response {
		if asked++; asked == 3 {
			cancel()
		}
		return inner(r)
	})
	r := cordwoodCtx(ctx, f.addr, "", "node", "list", "-o", "json", "--watch=100ms")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != exitInterrupted || len(lines) < 2 {
		t.Fatalf("%+v", r)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, `{"apiVersion":"v1","nodes":[`) {
			t.Errorf("%q", l)
		}
	}
}
