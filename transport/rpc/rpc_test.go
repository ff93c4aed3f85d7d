package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"cordwood/transport"
	"cordwood/transport/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer answers Metadata with the controller id that a test makes of the request.
type peer struct {
	answer func(r *transport.Request) transport.Response
}

func (p peer) Lookup(key, version int16, _ bool) (kmsg.Request, transport.Action) {
	if key == rpc.AckKey {
		return transport.NewOneWay(key, nil), transport.Serve
	}
	if key != kmsg.Metadata.Int16() {
		return nil, transport.Refuse
	}
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(version)
	return req, transport.Serve
}

func (p peer) Handle(_ context.Context, r *transport.Request) transport.Response { return p.answer(r) }

func serve(t testing.TB, answer func(r *transport.Request) transport.Response) *transport.Server {
	t.Helper()
	p := peer{answer}
	srv, err := transport.NewServer(transport.Options{Listeners: []transport.Listener{{Name: "x", Bind: "127.0.0.1:0"}}, Table: p, Handler: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// named answers with the number in the only topic name asked.
func named(r *transport.Request) kmsg.Response {
	resp := r.Body.ResponseKind().(*kmsg.MetadataResponse)
	_, _ = fmt.Sscan(*r.Body.(*kmsg.MetadataRequest).Topics[0].Topic, &resp.ControllerID)
	return resp
}

func ask(n int) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(fmt.Sprint(n))
	req.Topics = append(req.Topics, t)
	return req
}

func dial(t testing.TB, srv *transport.Server, opt rpc.Options) *rpc.Conn {
	t.Helper()
	c, err := rpc.Dial(t.Context(), srv.Addr("x").String(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestManyCallersShareAConnectionAndEachGetsItsAnswer(t *testing.T) {
	srv := serve(t, func(r *transport.Request) transport.Response { return transport.Response{Body: named(r)} })
	c := dial(t, srv, rpc.Options{ClientID: "test"})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				n := g*1000 + i
				resp, err := c.Do(t.Context(), ask(n))
				if err != nil {
					t.Error(err)
					return
				}
				if got := resp.(*kmsg.MetadataResponse).ControllerID; int(got) != n {
					t.Errorf("asked %d, got the answer to %d", n, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestRequestsInFlightAreAnsweredInOrder(t *testing.T) {
	gate := make(chan struct{})
	srv := serve(t, func(r *transport.Request) transport.Response {
		return transport.Response{Wait: func(context.Context) transport.Response {
			<-gate
			return transport.Response{Body: named(r)}
		}}
	})
	c := dial(t, srv, rpc.Options{})
	var all []*rpc.Pending
	for i := range 20 {
		p, err := c.Start(ask(i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	close(gate)
	for i, p := range all {
		resp, err := p.Wait(t.Context())
		if err != nil || int(resp.(*kmsg.MetadataResponse).ControllerID) != i {
			t.Fatalf("answer %d: %v, %v", i, resp, err)
		}
		p.Release()
	}
}

func TestAnUnansweredRequestClosesTheConnection(t *testing.T) {
	srv := serve(t, func(*transport.Request) transport.Response {
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			<-ctx.Done()
			return transport.Response{Close: true}
		}}
	})
	for name, do := range map[string]func(c *rpc.Conn) error{
		"its context ends": func(c *rpc.Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := c.Do(ctx, ask(1))
			return err
		},
		"the time of all requests is over": func(c *rpc.Conn) error {
			_, err := c.Do(context.Background(), ask(1))
			return err
		},
	} {
		c := dial(t, srv, rpc.Options{Timeout: 20 * time.Millisecond})
		err := do(c)
		if !errors.Is(err, rpc.ErrClosed) || errors.Is(err, rpc.ErrNotSent) {
			t.Fatalf("%s: %v", name, err)
		}
		<-c.Closed()
		if _, err := c.Do(t.Context(), ask(2)); !errors.Is(err, rpc.ErrNotSent) || !errors.Is(err, rpc.ErrClosed) {
			t.Fatalf("%s, and the next request: %v", name, err)
		}
	}
}

func TestAPeerThatGoesFailsWhatIsInFlight(t *testing.T) {
	waiting := make(chan struct{}, 8)
	srv := serve(t, func(*transport.Request) transport.Response {
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			waiting <- struct{}{}
			<-ctx.Done()
			return transport.Response{Close: true}
		}}
	})
	c := dial(t, srv, rpc.Options{})
	p, err := c.Start(ask(1))
	if err != nil {
		t.Fatal(err)
	}
	<-waiting
	_ = srv.Close()
	if _, err := p.Wait(t.Context()); !errors.Is(err, rpc.ErrClosed) || errors.Is(err, rpc.ErrNotSent) {
		t.Fatalf("in flight: %v", err)
	}
	<-c.Closed()
	if c.Err() == nil {
		t.Fatal("no cause")
	}
}

// rawPeer answers the first frame of each connection with bytes of the test.
func rawPeer(t *testing.T, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				if _, err := c.Read(make([]byte, 1000)); err == nil {
					_, _ = c.Write(answer)
					_, _ = c.Read(make([]byte, 1)) // until the client goes
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func TestStrangeAnswersCloseTheConnection(t *testing.T) {
	for name, b := range map[string][]byte{
		"another correlation id": {0, 0, 0, 5, 0, 0, 0, 9, 0},
		"a negative size":        {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		"a huge size":            {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		"no header tags":         {0, 0, 0, 4, 0, 0, 0, 1},
		"a body cut short":       {0, 0, 0, 7, 0, 0, 0, 1, 0, 1, 2},
	} {
		c, err := rpc.Dial(t.Context(), rawPeer(t, b), rpc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(t.Context(), ask(1)); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close()
	}
}

func TestThePoolKeepsConnectionsAndDialsAgain(t *testing.T) {
	srv := serve(t, func(r *transport.Request) transport.Response { return transport.Response{Body: named(r)} })
	now := time.Unix(0, 0)
	var dials atomic.Int32
	var addr atomic.Pointer[string]
	set := func(a string) { addr.Store(&a) }
	set(srv.Addr("x").String())
	pool := rpc.NewPool(rpc.PoolOptions{
		Options: rpc.Options{Dial: func(ctx context.Context, a string) (net.Conn, error) {
			dials.Add(1)
			var d net.Dialer
			return d.DialContext(ctx, "tcp", a)
		}},
		Address: func(int32) (string, error) { return *addr.Load(), nil },
		Now:     func() time.Time { return now },
	})
	get := func(purpose string) (*rpc.Conn, error) { return pool.Get(t.Context(), 1, purpose) }
	a, err := get("fetch")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := get("fetch"); b != a {
		t.Fatal("a second connection for one purpose")
	}
	if b, _ := get("session"); b == a {
		t.Fatal("two purposes share a connection")
	}
	_ = a.Close()
	if b, err := get("fetch"); err != nil || b == a {
		t.Fatalf("after a failure: %v, %v", b, err)
	}
	if n := dials.Load(); n != 3 {
		t.Fatalf("%d dials, want 3", n)
	}

	set("127.0.0.1:1") // nobody listens there
	pool.Forget(1)
	if _, err := get("fetch"); err == nil || errors.Is(err, rpc.ErrPause) {
		t.Fatalf("the first failed dial: %v", err)
	}
	if _, err := get("fetch"); !errors.Is(err, rpc.ErrPause) {
		t.Fatalf("within the pause: %v", err)
	}
	if n := dials.Load(); n != 4 {
		t.Fatalf("%d dials, want 4", n)
	}
	set(srv.Addr("x").String()) // another address is worth a dial at once
	if _, err := get("fetch"); err != nil {
		t.Fatal(err)
	}
	_ = pool.Close()
	if _, err := get("fetch"); !errors.Is(err, rpc.ErrClosed) {
		t.Fatalf("of a closed pool: %v", err)
	}
}

// TestARequestThatFindsNoRoomIsNotSent: with as many requests in flight as may be, the next one waits its time and is
// certainly not sent.
func TestARequestThatFindsNoRoomIsNotSent(t *testing.T) {
	gate := make(chan struct{})
	var seen atomic.Int32
	srv := serve(t, func(r *transport.Request) transport.Response {
		seen.Add(1)
		return transport.Response{Wait: func(context.Context) transport.Response {
			<-gate
			return transport.Response{Body: named(r)}
		}}
	})
	c := dial(t, srv, rpc.Options{MaxPending: 1, Timeout: 10 * time.Second})
	first, err := c.Start(ask(1))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Do(short, ask(2)); !errors.Is(err, rpc.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("no room: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := c.Do(ended, ask(3)); !errors.Is(err, rpc.ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Fatalf("an ended context: %v", err)
	}
	close(gate)
	if resp, err := first.Wait(t.Context()); err != nil || resp.(*kmsg.MetadataResponse).ControllerID != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	if _, err := c.Do(ended, ask(3)); !errors.Is(err, rpc.ErrNotSent) {
		t.Fatalf("an ended context, with room: %v", err)
	}
	if n := seen.Load(); n != 1 {
		t.Fatalf("the peer saw %d requests", n)
	}
}

// BenchmarkStartAndWait is one request at a time, without a deadline of the caller's, as a fetcher asks.
func BenchmarkStartAndWait(b *testing.B) {
	srv := serve(b, func(r *transport.Request) transport.Response { return transport.Response{Body: named(r)} })
	c := dial(b, srv, rpc.Options{})
	req := ask(1)
	b.ReportAllocs()
	for b.Loop() {
		p, err := c.Start(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(context.Background()); err != nil {
			b.Fatal(err)
		}
		p.Release()
	}
}

// A one-way frame is heard while an earlier request still waits, in its place among the requests, and no answer is taken
// for its own.
func TestAOneWayFrameIsHeardBehindARequestThatWaits(t *testing.T) {
	heard := make(chan string, 2)
	srv := serve(t, func(r *transport.Request) transport.Response {
		if one, ok := r.Body.(*transport.OneWay); ok {
			heard <- string(one.Body)
			return transport.Response{None: true}
		}
		return transport.Response{Wait: func(ctx context.Context) transport.Response {
			select {
			case body := <-heard:
				if body != "position" {
					t.Errorf("heard %q", body)
				}
			case <-ctx.Done():
			}
			return transport.Response{Body: named(r)}
		}}
	})
	c := dial(t, srv, rpc.Options{})
	for n := 1; n <= 3; n++ {
		p, err := c.Start(ask(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Tell(rpc.AckKey, []byte("position")); err != nil {
			t.Fatal(err)
		}
		resp, err := p.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.(*kmsg.MetadataResponse).ControllerID; got != int32(n) {
			t.Fatalf("answer %d to question %d", got, n)
		}
	}
	_ = c.Close()
	if err := c.Tell(rpc.AckKey, nil); !errors.Is(err, rpc.ErrNotSent) {
		t.Fatalf("on a closed connection: %v", err)
	}
}
