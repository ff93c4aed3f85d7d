//go:build integration

package loops

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/logstore/vfs"
)

// TestWhatStopsAStartIsOneSentence starts nodes that cannot start. Each says once on standard error what is wrong, with
// the key, the address or path and the way out, exits 1, or 9 where the configuration itself is wrong, and leaves its
// other ports free.
func TestWhatStopsAStartIsOneSentence(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { held.Close() })
	taken := held.Addr().String()
	dir := t.TempDir()
	file, foreign, used := filepath.Join(dir, "file"), filepath.Join(dir, "foreign"), filepath.Join(dir, "used")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.Mkdir(foreign, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "meta.properties"), []byte("version=1\nnode.id=7\ncluster.id=A\ndirectory.id=d\n"), 0o644))
	require.NoError(t, os.Mkdir(used, 0o755))
	lock, err := vfs.OS{}.Lock(filepath.Join(used, ".lock"))
	require.NoError(t, err)
	t.Cleanup(func() { lock.Close() })
	for name, c := range map[string]struct {
		key, value string
		code       int
		says       []string
	}{
		"clients' port": {"EXTERNAL", taken, 1, []string{"listeners.external.bind " + taken, "another process has the port", "another port"}},
		"raft port":     {"RAFT", taken, 1, []string{"raft.bind " + taken, "another process has the port", "another port"}},
		"gossip port":   {"GOSSIP", taken, 1, []string{"gossip.bind " + taken, "another process has the port", "another port"}},
		"HTTP port":     {"HTTP", taken, 1, []string{"http.bind " + taken, "another process has the port", "another port"}},
		"a file":        {"DIR", file, 1, []string{"node.data_dir " + file, "a file where a directory is needed", "another directory"}},
		"another's":     {"DIR", foreign, 1, []string{"data in " + foreign + " belongs to cluster A (node 7)", "cordwood node reset --data " + foreign}},
		"in use":        {"DIR", used, 1, []string{"node.data_dir " + used, "another process runs on this directory", "stop it"}},
		"no address":    {"ADVERTISE", "0.0.0.0:1", 9, []string{"listeners.external.advertise", "0.0.0.0:1"}},
		"join name":     {"JOIN", `"192.0.2.1:1", "no-such-node.invalid:7946"`, 1, []string{"cluster.join no-such-node.invalid:7946", "does not resolve here", "misspelled", "start that node, or write its address"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := map[string]string{"DIR": filepath.Join(t.TempDir(), "data"), "ADVERTISE": "192.0.2.1:1", "JOIN": ""}
			for _, k := range []string{"EXTERNAL", "INTERNAL", "RAFT", "GOSSIP", "HTTP"} {
				values[k] = freeAddress(t)
			}
			values[c.key] = c.value
			config := filepath.Join(t.TempDir(), "cordwood.yaml")
			require.NoError(t, os.WriteFile(config, []byte(os.Expand(refusedConfig, func(k string) string { return values[k] })), 0o644))

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, *binary, "serve", "--config", config)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			_ = cmd.Run() // its exit code tells
			require.Equal(t, c.code, cmd.ProcessState.ExitCode(), stderr.String())
			for _, s := range c.says {
				require.Equal(t, 1, strings.Count(stderr.String(), s), "%q once in\n%s", s, stderr.String())
			}
			for _, k := range []string{"EXTERNAL", "INTERNAL", "RAFT", "GOSSIP", "HTTP"} {
				if values[k] == taken {
					continue
				}
				l, err := net.Listen("tcp", values[k])
				require.NoError(t, err, k)
				l.Close()
			}
		})
	}
}

const refusedConfig = `node: { id: 1, data_dir: "$DIR" }
cluster: { join: [$JOIN] }
listeners:
  internal: { bind: "$INTERNAL", advertise: "192.0.2.1:2" }
  external: { bind: "$EXTERNAL", advertise: "$ADVERTISE" }
raft: { bind: "$RAFT", advertise: "192.0.2.1:3" }
gossip: { bind: "$GOSSIP", advertise: "192.0.2.1:1" }
http: { bind: "$HTTP" }
`

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr())
}
