package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"cordwood/logstore/record"
	"cordwood/transport"
	"cordwood/transport/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a table of a few requests and a handler that a test sets.
type stub struct {
	handle func(ctx context.Context, r *transport.Request) transport.Response
}

func (s *stub) Lookup(key, version int16, internal bool) (kmsg.Request, transport.Action) {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions:
		if version > 5 {
			return kmsg.NewPtrApiVersionsRequest(), transport.AnswerOldest
		}
	case kmsg.Metadata, kmsg.Produce, kmsg.Fetch:
	case kmsg.BrokerHeartbeat:
		if !internal {
			return nil, transport.Refuse
		}
	default:
		return nil, transport.Refuse
	}
	req := kmsg.RequestForKey(key)
	if version < 0 || version > req.MaxVersion() {
		return nil, transport.Refuse
	}
	req.SetVersion(version)
	return req, transport.Serve
}

func (s *stub) Handle(ctx context.Context, r *transport.Request) transport.Response {
	if s.handle != nil {
		return s.handle(ctx, r)
	}
	return transport.Response{Body: r.Body.ResponseKind()}
}

// start runs a server with one external and one internal listener.
func start(t testing.TB, s *stub, change func(*transport.Options)) *transport.Server {
	t.Helper()
	opt := transport.Options{
		Listeners: []transport.Listener{{Name: "external", Bind: "127.0.0.1:0"}, {Name: "internal", Bind: "127.0.0.1:0", Internal: true}},
		Table:     s, Handler: s,
	}
	if change != nil {
		change(&opt)
	}
	srv, err := transport.NewServer(opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

func dialRaw(t testing.TB, srv *transport.Server, name string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr(name).String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func dialRPC(t testing.TB, srv *transport.Server, name string, opt rpc.Options) *rpc.Conn {
	t.Helper()
	c, err := rpc.Dial(t.Context(), srv.Addr(name).String(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func metadata(v int16) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(v)
	req.Topics = []kmsg.MetadataRequestTopic{}
	return req
}

func frameOf(corr int32, req kmsg.Request) []byte {
	b := []byte{0, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	b = append(b, 0xff, 0xff)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// readFrame gives the correlation id and the body behind it.
func readFrame(t testing.TB, c net.Conn) (int32, []byte) {
	t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

func TestEveryVersionGetsItsOwnHeaders(t *testing.T) {
	srv := start(t, &stub{}, nil)
	c := dialRPC(t, srv, "external", rpc.Options{ClientID: "test"})
	for v := int16(0); v <= 13; v++ {
		if _, err := c.Do(t.Context(), metadata(v)); err != nil {
			t.Fatalf("Metadata v%d: %v", v, err)
		}
	}
	for v := int16(0); v <= 5; v++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(v)
		if _, err := c.Do(t.Context(), req); err != nil {
			t.Fatalf("ApiVersions v%d: %v", v, err)
		}
	}
}

func TestAnswersKeepTheOrderOfTheirRequestsWhileWaitsOverlap(t *testing.T) {
	handled, gate := make(chan int32, 6), make(chan struct{})
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		n := r.CorrelationID
		handled <- n
		if r.Key != kmsg.Produce.Int16() {
			return transport.Response{Body: r.Body.ResponseKind()}
		}
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			if n == 0 {
				<-gate // the first append is acknowledged after the others were made
			}
			return transport.Response{Body: r.Body.ResponseKind()}
		}}
	}}
	srv := start(t, s, nil)
	c := dialRaw(t, srv, "external")
	var all []byte
	for i := range int32(5) {
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(9)
		all = append(all, frameOf(i, req)...)
	}
	all = append(all, frameOf(5, metadata(9))...)
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		<-handled // all of them, while the first waits
	}
	close(gate)
	for i := range int32(6) {
		if corr, _ := readFrame(t, c); corr != i {
			t.Fatalf("answer %d came where %d is due", corr, i)
		}
	}
}

func TestAnOrderedWaitHoldsBackTheNextRequest(t *testing.T) {
	var done atomic.Bool
	early := make(chan bool, 1)
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		if r.CorrelationID == 2 {
			early <- !done.Load()
			return transport.Response{Body: r.Body.ResponseKind()}
		}
		return transport.Response{Ordered: true, Wait: func(context.Context) transport.Response {
			done.Store(true)
			return transport.Response{Body: r.Body.ResponseKind()}
		}}
	}}
	srv := start(t, s, nil)
	c := dialRaw(t, srv, "external")
	if _, err := c.Write(append(frameOf(1, metadata(1)), frameOf(2, metadata(1))...)); err != nil {
		t.Fatal(err)
	}
	if <-early {
		t.Fatal("the second request was handled before the first was done")
	}
}

func TestNoAnswerIsSentWhereNoneIsDue(t *testing.T) {
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		if r.Key == kmsg.Produce.Int16() {
			return transport.Response{None: true}
		}
		return transport.Response{Body: r.Body.ResponseKind()}
	}}
	srv := start(t, s, nil)
	c := dialRaw(t, srv, "external")
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(7)
	if _, err := c.Write(append(frameOf(1, req), frameOf(2, metadata(1))...)); err != nil {
		t.Fatal(err)
	}
	if corr, _ := readFrame(t, c); corr != 2 {
		t.Fatalf("got an answer to %d", corr)
	}
}

func TestAnEndInsteadOfAnAnswerIsCountedByItsReason(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		if r.CorrelationID == 1 {
			return transport.Response{Body: r.Body.ResponseKind()}
		}
		return transport.Response{Close: true, Reason: "acks-0"}
	}}
	srv := start(t, s, func(o *transport.Options) { o.Registerer = reg })
	c := dialRaw(t, srv, "external")
	if _, err := c.Write(append(frameOf(1, metadata(1)), frameOf(2, metadata(1))...)); err != nil {
		t.Fatal(err)
	}
	if corr, _ := readFrame(t, c); corr != 1 {
		t.Fatalf("answer to %d", corr)
	}
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Fatalf("%d bytes came instead of the end", len(b))
	}
	_ = srv.Close()
	if n := counter(t, reg, "cordwood_connections_closed_total", "reason", "acks-0"); n != 1 {
		t.Fatalf("counted %v", n)
	}
}

// Field reports 1 and 3 (redpanda#1714, #4391, PR#30160): what scanners and hostile clients send ends their own
// connection, is counted, and touches no other.
func TestHostileFramesEndOnlyTheirConnection(t *testing.T) {
	reg := prometheus.NewRegistry()
	srv := start(t, &stub{}, func(o *transport.Options) { o.Registerer = reg; o.Patience = 200 * time.Millisecond })
	good := dialRPC(t, srv, "external", rpc.Options{})
	header := func(rest ...byte) []byte { // Metadata v9, no client id
		b := append([]byte{0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff}, rest...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	cases := []struct {
		name, reason string
		bytes        []byte
	}{
		{"HTTP", "http", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"SSH", "ssh", []byte("SSH-2.0-x\r\n")},
		{"TLS hello", "tls", []byte{0x16, 3, 1, 0, 0x40, 1, 0, 0, 0x3c, 3, 3}},
		{"TLS alert", "tls", []byte{0x15, 3, 1, 0, 2, 2, 40}},
		{"text", "text", []byte("hello\n")},
		{"size 0", "size", []byte{0, 0, 0, 0}},
		{"size -1", "size", []byte{0xff, 0xff, 0xff, 0xff}},
		{"size 2^31-1", "size", []byte{0x7f, 0xff, 0xff, 0xff}},
		{"size 100 MiB and 1", "size", []byte{6, 0x40, 0, 1}},
		{"size 1 and silence", "slow", []byte{0, 0, 0, 1}},
		{"100 MiB and silence", "slow", []byte{6, 0x40, 0, 0}},
		{"half a size and silence", "slow", []byte{0, 0}},
		{"a header of four bytes", "header", []byte{0, 0, 0, 4, 0, 3, 0, 1}},
		{"client id of 32767", "header", []byte{0, 0, 0, 13, 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'a', 'b', 'c'}},
		{"unknown key", "unknown-key", []byte{0, 0, 0, 10, 3, 0xe8, 0, 0, 0, 0, 0, 1, 0xff, 0xff}},
		{"unknown version", "refused", []byte{0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff}},
		{"a request between nodes", "refused", []byte{0, 0, 0, 10, 0, 63, 0, 0, 0, 0, 0, 1, 0xff, 0xff}},
		{"2^31-1 tags", "header", header(0xff, 0xff, 0xff, 0xff, 0x07)},
		{"a tag of 2^31-1 bytes", "header", header(1, 100, 0xff, 0xff, 0xff, 0xff, 0x07)},
		{"a varint of six bytes", "header", header(0x80, 0x80, 0x80, 0x80, 0x80, 0)},
		{"no body", "body", header(0)},
		{"an array of 2^31-1", "body", header(0, 0x80, 0x80, 0x80, 0x80, 0x08)},
	}
	want := map[string]float64{}
	for _, c := range cases {
		want[c.reason]++
		conn := dialRaw(t, srv, "external")
		if _, err := conn.Write(c.bytes); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if b, _ := io.ReadAll(conn); len(b) > 0 {
			t.Errorf("%s: answered % x", c.name, b)
		}
		if _, err := good.Do(t.Context(), metadata(9)); err != nil {
			t.Fatalf("after %s another connection fails: %v", c.name, err)
		}
	}
	_ = srv.Close()
	for reason, n := range want {
		if got := counter(t, reg, "cordwood_bad_frames_total", "reason", reason); got != n {
			t.Errorf("counted %v bad frames for %q, want %v", got, reason, n)
		}
	}
}

func counter(t testing.TB, reg *prometheus.Registry, family, label, value string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != family {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

// wholeFile makes a file of n bytes and gives them too.
func wholeFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "segment"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f, b
}

func TestPiecesArriveWholeAndSpansAreReleasedOnce(t *testing.T) {
	file, content := wholeFile(t, 3<<20)
	var released atomic.Int32
	span := func(src io.ReaderAt, off, n int64) record.Span {
		return record.NewSpan(src, off, n, func() { released.Add(1) })
	}
	// An io.ReaderAt without a file descriptor stands for the memory file system.
	mem := bytes.NewReader(content)
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		return transport.Response{Pieces: []transport.Piece{
			{Bytes: []byte("head"), Span: span(file, 5, 100)},
			{Bytes: []byte("middle"), Span: span(file, 1000, 2<<20)},
			{Bytes: []byte("more"), Span: span(mem, 10, 700<<10)},
			{Span: span(mem, 0, 20<<10)},
			{Bytes: bytes.Repeat([]byte("x"), 100<<10)},
			{Bytes: []byte("tail")},
		}}
	}}
	want := slicesConcat([]byte("head"), content[5:105], []byte("middle"), content[1000:1000+2<<20], []byte("more"),
		content[10:10+700<<10], content[:20<<10], bytes.Repeat([]byte("x"), 100<<10), []byte("tail"))
	srv := start(t, s, nil)
	var wg sync.WaitGroup
	for range 8 { // one file, many connections at once: the file's position is nobody's
		wg.Go(func() {
			c := dialRaw(t, srv, "external")
			if _, err := c.Write(frameOf(1, metadata(1))); err != nil {
				t.Error(err)
				return
			}
			if _, b := readFrame(t, c); !bytes.Equal(b, want) {
				t.Errorf("got %d bytes that differ from the %d sent", len(b), len(want))
			}
		})
	}
	wg.Wait()
	_ = srv.Close()
	if n := released.Load(); n != 8*4 {
		t.Fatalf("%d spans released, want 32", n)
	}
}

func slicesConcat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestAFileShorterThanPromisedClosesTheConnection(t *testing.T) {
	for _, n := range []int64{100, 1 << 20} {
		file, _ := wholeFile(t, 50)
		released := make(chan struct{}, 3)
		s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
			ps := make([]transport.Piece, 3)
			for i := range ps {
				ps[i] = transport.Piece{Bytes: []byte("b"), Span: record.NewSpan(file, 0, n, func() { released <- struct{}{} })}
			}
			return transport.Response{Pieces: ps}
		}}
		srv := start(t, s, nil)
		c := dialRaw(t, srv, "external")
		if _, err := c.Write(frameOf(1, metadata(1))); err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(c); int64(len(b)) >= n {
			t.Fatalf("%d bytes came of a file of 50", len(b))
		}
		for range 3 {
			<-released
		}
		_ = srv.Close()
	}
}

func TestAConnectionThatClosesEndsItsWaits(t *testing.T) {
	waiting, ended := make(chan struct{}), make(chan struct{})
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		closed := r.Conn.Closed
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			close(waiting)
			<-ctx.Done()
			<-closed
			close(ended)
			return transport.Response{Body: r.Body.ResponseKind()}
		}}
	}}
	srv := start(t, s, nil)
	c := dialRaw(t, srv, "external")
	if _, err := c.Write(frameOf(1, metadata(1))); err != nil {
		t.Fatal(err)
	}
	<-waiting
	_ = c.Close()
	<-ended
}

func TestShutdownAnswersWhatWasRead(t *testing.T) {
	waiting, gate := make(chan struct{}), make(chan struct{})
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			close(waiting)
			select {
			case <-gate:
			case <-ctx.Done():
				return transport.Response{Close: true}
			}
			return transport.Response{Body: r.Body.ResponseKind()}
		}}
	}}
	srv := start(t, s, nil)
	c := dialRaw(t, srv, "external")
	if _, err := c.Write(frameOf(7, metadata(1))); err != nil {
		t.Fatal(err)
	}
	<-waiting
	done := make(chan error, 1)
	go func() { done <- srv.Shutdown(t.Context()) }()
	for { // no new connection is taken any more
		x, err := net.Dial("tcp", srv.Addr("external").String())
		if err != nil {
			break
		}
		_ = x.Close()
	}
	close(gate)
	if corr, _ := readFrame(t, c); corr != 7 {
		t.Fatalf("answer to %d", corr)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestShutdownEndsInTimeWithAParkedRequest(t *testing.T) {
	waiting := make(chan struct{})
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			close(waiting)
			<-ctx.Done()
			return transport.Response{Close: true}
		}}
	}}
	srv := start(t, s, nil)
	c := dialRaw(t, srv, "external")
	if _, err := c.Write(frameOf(7, metadata(1))); err != nil {
		t.Fatal(err)
	}
	<-waiting
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Shutdown: %v", err)
	}
}

func TestTooManyConnectionsAreRefusedAndNodesStillGetIn(t *testing.T) {
	srv := start(t, &stub{}, func(o *transport.Options) { o.ConnectionsMax = 2 })
	a, b := dialRPC(t, srv, "external", rpc.Options{}), dialRPC(t, srv, "external", rpc.Options{})
	for _, c := range []*rpc.Conn{a, b} {
		if _, err := c.Do(t.Context(), metadata(1)); err != nil {
			t.Fatal(err)
		}
	}
	c := dialRaw(t, srv, "external")
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatalf("a third connection got %d bytes", n)
	}
	if _, err := dialRPC(t, srv, "internal", rpc.Options{}).Do(t.Context(), metadata(1)); err != nil {
		t.Fatalf("a node is refused: %v", err)
	}
}

func TestAnIdleConnectionIsClosedAndAParkedOneIsNot(t *testing.T) {
	gate := make(chan struct{})
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			<-gate
			return transport.Response{Body: r.Body.ResponseKind()}
		}}
	}}
	srv := start(t, s, func(o *transport.Options) { o.IdleMax = 50 * time.Millisecond })
	parked := dialRaw(t, srv, "external")
	if _, err := parked.Write(frameOf(1, metadata(1))); err != nil {
		t.Fatal(err)
	}
	idle := dialRaw(t, srv, "external")
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("an idle connection: %v", err)
	}
	close(gate)
	if corr, _ := readFrame(t, parked); corr != 1 {
		t.Fatalf("answer to %d", corr)
	}
}

func TestSecretIsProvedByBothSides(t *testing.T) {
	srv := start(t, &stub{}, func(o *transport.Options) { o.Secret = []byte("right") })
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	if _, err := dialRPC(t, srv, "internal", rpc.Options{Secret: []byte("right")}).Do(t.Context(), beat); err != nil {
		t.Fatalf("with the secret: %v", err)
	}
	if _, err := rpc.Dial(t.Context(), srv.Addr("internal").String(), rpc.Options{Secret: []byte("wrong")}); !errors.Is(err, transport.ErrSecret) {
		t.Fatalf("with a wrong secret: %v", err)
	}
	if _, err := dialRPC(t, srv, "internal", rpc.Options{}).Do(t.Context(), beat); err == nil {
		t.Fatal("a request between nodes was served without the secret")
	}
	if _, err := dialRPC(t, srv, "internal", rpc.Options{}).Do(t.Context(), metadata(1)); err != nil {
		t.Fatalf("a client on the internal listener: %v", err)
	}
	if _, err := rpc.Dial(t.Context(), srv.Addr("external").String(), rpc.Options{Secret: []byte("right")}); !errors.Is(err, transport.ErrSecret) {
		t.Fatalf("a proof on an external listener: %v", err)
	}
}

// 200 slow clients: each sends a large request a bit at a time or does not read its large answers. What the server
// holds stays under the bound, and a quick client is served all the time.
func TestTwoHundredSlowClientsStayUnderTheBound(t *testing.T) {
	const bound = 16 << 20
	reg := prometheus.NewRegistry()
	big := kmsg.NewPtrMetadataResponse()
	for range 50 {
		b := kmsg.NewMetadataResponseBroker()
		b.Host = strings.Repeat("h", 12_000)
		big.Brokers = append(big.Brokers, b)
	}
	s := &stub{handle: func(_ context.Context, r *transport.Request) transport.Response {
		if r.Key == kmsg.Metadata.Int16() && r.Version == 1 {
			resp := *big
			resp.SetVersion(1)
			return transport.Response{Body: &resp}
		}
		return transport.Response{Body: r.Body.ResponseKind()}
	}}
	srv := start(t, s, func(o *transport.Options) {
		o.InflightBytes, o.Registerer, o.Patience = bound, reg, 300*time.Millisecond
	})
	quick := dialRPC(t, srv, "external", rpc.Options{})
	for i := range 200 {
		c := dialRaw(t, srv, "external")
		if i%2 == 0 {
			_, _ = c.Write(bytes.Repeat(frameOf(1, metadata(1)), 64)) // and never reads
		} else {
			_, _ = c.Write([]byte{0, 0x20, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1}) // 2 MiB are said to follow
			_, _ = c.Write(make([]byte, 70<<10))
		}
	}
	worst, served := 0.0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) || served == 0; {
		// Where all memory is taken for longer than its patience lasts, the server ends a quick client's connection too.
		if _, err := quick.Do(t.Context(), metadata(9)); err != nil {
			quick = dialRPC(t, srv, "external", rpc.Options{})
		} else {
			served++
		}
		worst = max(worst, gauge(t, reg, "cordwood_inflight_bytes"))
	}
	t.Logf("held at most %.0f of %d bytes", worst, bound)
	if worst > bound {
		t.Fatalf("the server held %.0f bytes, the bound is %d", worst, bound)
	}
}

func gauge(t testing.TB, reg *prometheus.Registry, family string) float64 {
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == family {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", family)
	return 0
}
