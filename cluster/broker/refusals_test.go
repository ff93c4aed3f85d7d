package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"cordwood/configs"
	"cordwood/logstore"
	"cordwood/logstore/vfs"
)

func TestWhatStopsAStartIsOneSentenceWithKeyPlaceAndWayOut(t *testing.T) {
	mem := vfs.NewMem(nil)
	require.NoError(t, mem.MkdirAll("/data"))
	wrap := func(err error) error { return fmt.Errorf("listen: %w", err) }
	gossip := configs.Gossip{Bind: "0.0.0.0:7946", Advertise: "n1:7946"}
	for name, c := range map[string]struct {
		err   error
		cause error
		says  []string
	}{
		"port in use":          {bindError("raft.bind", "0.0.0.0:9093", wrap(syscall.EADDRINUSE)), syscall.EADDRINUSE, []string{"raft.bind 0.0.0.0:9093", "another process", "another port"}},
		"low port":             {bindError("http.bind", ":80", wrap(syscall.EACCES)), syscall.EACCES, []string{"http.bind :80", "uid", "higher"}},
		"address of another":   {bindError("http.bind", "10.9.9.9:80", wrap(syscall.EADDRNOTAVAIL)), syscall.EADDRNOTAVAIL, []string{"http.bind 10.9.9.9:80", "0.0.0.0"}},
		"gossip port":          {gossipError(gossip, wrap(syscall.EADDRINUSE)), syscall.EADDRINUSE, []string{"gossip.bind 0.0.0.0:7946", "another port"}},
		"gossip port in words": {gossipError(gossip, errors.New("listen: "+syscall.EADDRINUSE.Error())), syscall.EADDRINUSE, []string{"gossip.bind 0.0.0.0:7946: another process"}},
		"gossip name":          {gossipError(gossip, wrap(&net.DNSError{Name: "n1", Err: "no such host"})), nil, []string{"gossip.advertise n1:7946", "does not resolve", "check the name"}},
		"not writable":         {dirError(mem, "/data/x", wrap(fs.ErrPermission)), fs.ErrPermission, []string{"node.data_dir /data/x", "uid", "/data, which is", "chown"}},
		"locked":               {dirError(mem, "/data", wrap(vfs.ErrLocked)), vfs.ErrLocked, []string{"node.data_dir /data", "another process", "stop it"}},
		"full":                 {dirError(mem, "/data", wrap(syscall.ENOSPC)), syscall.ENOSPC, []string{"node.data_dir /data", "full", "free some space"}},
		"quota":                {dirError(mem, "/data", wrap(syscall.EDQUOT)), syscall.EDQUOT, []string{"free some space"}},
		"a file":               {dirError(mem, "/data", wrap(syscall.ENOTDIR)), syscall.ENOTDIR, []string{"/data", "a file", "another directory"}},
		"of another node":      {dirError(mem, "/data", wrap(&logstore.ForeignDirError{NodeID: 2, ClusterID: "A", WantNode: 3})), logstore.ErrForeignDir, []string{"data in /data belongs to cluster A (node 2); this node is configured as node 3. Refusing to start. To wipe: cordwood node reset --data /data"}},
		"of another cluster":   {dirError(mem, "/data", wrap(&logstore.ForeignDirError{NodeID: 2, ClusterID: "A", WantNode: 2, WantCluster: "B"})), logstore.ErrForeignDir, []string{"belongs to cluster A (node 2)", "of cluster B. Refusing to start. To wipe: cordwood node reset --data /data"}},
		"refused by a cluster": {foreignCluster("/data", "A", 2, "prod", wrap(kerr.InconsistentClusterID)), kerr.InconsistentClusterID, []string{"data in /data belongs to cluster A (node 2)", `"prod"`, "Refusing to start. To wipe: cordwood node reset --data /data"}},
	} {
		for _, s := range c.says {
			require.ErrorContains(t, c.err, s, name)
		}
		require.NotContains(t, c.err.Error(), "\n", name)
		if c.cause != nil {
			require.True(t, errors.Is(c.err, c.cause), "%s keeps its cause", name)
		}
	}
}
