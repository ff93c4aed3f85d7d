//go:build integration && linux

package torture

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

var binaryFlag = flag.String("binary", "../../bin/cordwood", "the binary under test")

// lostOnly gives how many acknowledged records of topics written with acks=1 alone were lost, by a report.
func lostOnly(r history.Report) (count, allowed int) {
	for _, a := range r.Anomalies {
		if a.Kind == history.LostWrite {
			count, allowed = count+a.Count, allowed+a.Allowed
		}
	}
	return count, allowed
}

// TestAcksOneMayLoseWhatAcksAllMayNot kills and cuts off leaders of real nodes until records of acks=1 are lost: the run ends
// with 0, since that is what acks=1 means. The very same history, said to be of acks=all, ends with 20.
func TestAcksOneMayLoseWhatAcksAllMayNot(t *testing.T) {
	dir := t.TempDir()
	saved := filepath.Join(dir, "history")
	const tries = 4
	for try := range tries {
		out, code := torture(t, "--duration", "40s", "--period", "4s", "--faults", "kill,primaries", "--history", saved)
		require.Zero(t, code, out)
		f, err := os.Open(saved)
		require.NoError(t, err)
		h, err := history.Read(f)
		require.NoError(t, errors.Join(err, f.Close()))
		count, allowed := lostOnly(history.Check(h))
		require.Equal(t, count, allowed)
		if count == 0 {
			t.Logf("run %d lost nothing", try+1)
			continue
		}
		t.Logf("run %d: %d lost, all allowed", try+1, count)
		for i := range h.Header.Topics {
			h.Header.Topics[i].Acks = "all"
		}
		var b bytes.Buffer
		require.NoError(t, history.Write(&b, h))
		require.NoError(t, os.WriteFile(saved, b.Bytes(), 0o644))
		out, code = torture(t, "check", saved)
		require.Equal(t, history.ExitLost, code, out)
		require.Contains(t, out, "lost-write")
		return
	}
	t.Fatalf("nothing of acks=1 was lost in %d runs: the test shows nothing", tries)
}

// torture runs the binary and gives what it printed and its exit code.
func torture(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), *binaryFlag, append([]string{"torture"}, args...)...).CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if ended != nil {
		return string(out), ended.ExitCode()
	}
	return string(out), 0
}
