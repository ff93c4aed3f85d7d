package apitest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// Serve runs a server for the handlers of a cluster's first node, on free ports of the loopback, and registers the node
// again with the addresses. change may be nil.
func Serve(t testing.TB, w *Cluster, change func(*transport.Options)) *transport.Server {
	t.Helper()
	opt := transport.Options{
		Listeners: []transport.Listener{{Name: "external", Bind: "127.0.0.1:0"}, {Name: "internal", Bind: "127.0.0.1:0", Internal: true}},
		Table:     w.Handlers, Handler: w.Handlers,
	}
	if change != nil {
		change(&opt)
	}
	srv, err := transport.NewServer(opt)
	require.NoError(t, err)
	require.NoError(t, srv.Listen(t.Context()))
	t.Cleanup(func() { _ = srv.Close() })
	at := map[string]metadata.Endpoint{}
	for _, l := range opt.Listeners {
		at[l.Name] = endpointOf(t, srv.Addr(l.Name))
	}
	w.StartAt(w.Handlers.Node.ID, at)
	return srv
}

func endpointOf(t testing.TB, a net.Addr) metadata.Endpoint {
	tcp, ok := a.(*net.TCPAddr)
	require.True(t, ok)
	return metadata.Endpoint{Host: tcp.IP.String(), Port: int32(tcp.Port)}
}
