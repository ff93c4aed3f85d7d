package membership

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kill stops without good-bye, as a killed process does.
func (m *Membership) kill(t *testing.T) {
	m.cancel()
	m.wait.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NoError(t, m.list.Shutdown())
}

var nextPort atomic.Int32

// address gives a loopback address that no other test uses.
func address() string { return fmt.Sprintf("127.0.0.1:%d", 21400+nextPort.Add(1)) }

func testOptions(t *testing.T, node int32, own string, join ...string) Options {
	var log *slog.Logger
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", node)
	}
	return Options{
		NodeID: node, DirectoryID: fmt.Sprintf("dir-%d", node), ClusterName: "test", Bind: own, Advertise: own,
		RaftAddress: fmt.Sprintf("n%d:9093", node), Join: join, Logger: log,
	}
}

func start(t *testing.T, opt Options) *Membership {
	m, err := New(opt)
	require.NoError(t, err)
	require.NoError(t, m.Start(context.Background()))
	return m
}

// eventually waits for a condition, polling its cheap check.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 10*time.Millisecond, what)
}

func sees(m *Membership, node int32, s State) func() bool {
	return func() bool {
		for _, x := range m.Members() {
			if x.NodeID == node {
				return x.State == s
			}
		}
		return false
	}
}

func TestNodesFindEachOtherInAnyOrderAndTellWhereTheyAreAsked(t *testing.T) {
	a, b, c := address(), address(), address()
	join := []string{a, b, c}
	// The first one calls two that are not there yet.
	m1 := start(t, testOptions(t, 1, a, join...))
	m2 := start(t, testOptions(t, 2, b, join...))
	m3 := start(t, testOptions(t, 3, c, join...))
	all := []*Membership{m1, m2, m3}
	for _, m := range all {
		for node := int32(1); node <= 3; node++ {
			eventually(t, "all see all", sees(m, node, Alive))
		}
	}
	require.Equal(t, "n2:9093", m1.Members()[1].RaftAddress)
	require.Equal(t, b, m1.Members()[1].GossipAddress)

	m2.SetClusterID("the-cluster")
	eventually(t, "a cluster id spreads", func() bool { return m3.Members()[1].ClusterID == "the-cluster" })

	require.NoError(t, m3.Close())
	eventually(t, "a good-bye is heard", sees(m1, 3, Left))
	m2.kill(t)
	eventually(t, "a death is noticed", sees(m1, 2, Dead))

	// Back with another directory: the dead one is not shown beside it.
	opt := testOptions(t, 2, b, join...)
	opt.DirectoryID = "dir-2-wiped"
	m2 = start(t, opt)
	eventually(t, "a wiped node comes back", sees(m1, 2, Alive))
	require.Len(t, m1.Members(), 3)
	require.Equal(t, "dir-2-wiped", m1.Members()[1].DirectoryID)
	require.NoError(t, m2.Close())
	require.NoError(t, m1.Close())
}

func TestANodeThatComesBackWithAnotherAddressIsAccepted(t *testing.T) {
	a, b, moved := address(), address(), address()
	m1 := start(t, testOptions(t, 1, a, a, b))
	m2 := start(t, testOptions(t, 2, b, a, b))
	eventually(t, "joined", sees(m1, 2, Alive))
	m2.kill(t)
	eventually(t, "a death is noticed", sees(m1, 2, Dead))
	m2 = start(t, testOptions(t, 2, moved, a, b))
	eventually(t, "accepted at another address", func() bool { return sees(m1, 2, Alive)() && m1.Members()[1].GossipAddress == moved })
	require.NoError(t, m2.Close())
	require.NoError(t, m1.Close())
}

func TestClustersOfAnotherNameAreNotHeard(t *testing.T) {
	a, b := address(), address()
	m1 := start(t, testOptions(t, 1, a, a, b))
	opt := testOptions(t, 2, b, a, b)
	opt.ClusterName = "another"
	m2 := start(t, opt)
	// Both call each other several times meanwhile: what would join, joins within one call.
	for range 5 {
		_, err := m1.list.Join([]string{b})
		require.Error(t, err)
	}
	require.Len(t, m1.Members(), 1)
	require.Len(t, m2.Members(), 1)
	require.NoError(t, m2.Close())
	require.NoError(t, m1.Close())
}

func TestTheAdvertisedNameIsResolvedAtStartAndBeforeEachRejoin(t *testing.T) {
	a, b := address(), address()
	_, port, err := net.SplitHostPort(a)
	require.NoError(t, err)
	var ip atomic.Value
	ip.Store("127.0.0.1")
	opt := testOptions(t, 1, "0.0.0.0:"+port, b)
	opt.Advertise = "n1.test:" + port
	opt.Resolve = func(_ context.Context, host string) ([]net.IP, error) {
		if host != "n1.test" {
			return nil, fmt.Errorf("no such host %s", host)
		}
		return []net.IP{net.ParseIP(ip.Load().(string))}, nil
	}
	m1 := start(t, opt)
	own := func() string {
		m1.mu.Lock()
		defer m1.mu.Unlock()
		return m1.list.LocalNode().Addr.String()
	}
	require.Equal(t, "127.0.0.1", own())
	ip.Store("127.0.0.2")
	eventually(t, "gossip starts anew with the new address", func() bool { return own() == "127.0.0.2" })
	require.NoError(t, m1.Close())
}

func TestASecretKeepsStrangersOut(t *testing.T) {
	a, b := address(), address()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("MDEyMzQ1Njc4OWFiY2RlZg==\n"), 0o600))
	key, err := ReadSecret(file)
	require.NoError(t, err)
	require.Len(t, key, 16)
	with := testOptions(t, 1, a, a, b)
	with.SecretKey = key
	m1, m2 := start(t, with), start(t, testOptions(t, 2, b, a, b))
	_, err = m2.list.Join([]string{a})
	require.Error(t, err)
	require.Len(t, m1.Members(), 1)
	require.NoError(t, m2.Close())
	require.NoError(t, m1.Close())

	require.NoError(t, os.WriteFile(file, []byte("c2hvcnQ="), 0o600))
	_, err = ReadSecret(file)
	require.Error(t, err)
}

func TestMetaThatGossipCannotCarryIsRefusedAtStart(t *testing.T) {
	opt := testOptions(t, 1, address())
	opt.RaftAddress = string(make([]byte, maxMeta)) + ":1"
	_, err := New(opt)
	require.ErrorIs(t, err, errMeta)
}

func TestEventsNeverBlockGossipAndTheNewestStays(t *testing.T) {
	m, err := New(testOptions(t, 1, address()))
	require.NoError(t, err)
	d := &delegate{m}
	for i := range int32(maxEvents + 10) {
		b, err := meta{NodeID: i, DirectoryID: "d"}.encode()
		require.NoError(t, err)
		d.changed(nodeWith(b), Alive)
	}
	var last Event
	for len(m.events) > 0 {
		last = <-m.events
	}
	require.Equal(t, int32(maxEvents+9), last.Member.NodeID)
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"n":1,"d":"x","r":"n1:9093","g":"n1:7946"}`))
	f.Add([]byte(`{"n":-1}`))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if again, err := m.encode(); err == nil {
			back, err := decodeMeta(again)
			require.NoError(t, err)
			require.Equal(t, m, back)
		}
	})
}

func nodeWith(b []byte) *memberlist.Node {
	return &memberlist.Node{Name: "x", Addr: net.IPv4(127, 0, 0, 1), Meta: b}
}
