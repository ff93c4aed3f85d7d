//go:build integration

package loops

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryCommandOfTheTourWorks runs the console blocks of the README's tour, in order, in one shell that stops at the
// first command that fails.
func TestEveryCommandOfTheTourWorks(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, tour, ok := strings.Cut(string(readme), "\n## A tour of five minutes\n")
	require.True(t, ok, "the README has a tour")
	tour, _, _ = strings.Cut(tour, "\n## ")
	script := "set -eu\n"
	commands := 0
	for i, block := range strings.Split(tour, "```") {
		if i%2 == 0 {
			continue
		}
		lines, ok := strings.CutPrefix(block, "console\n")
		require.True(t, ok, "every block of the tour holds commands: %s", block)
		for line := range strings.Lines(lines) {
			command, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "$ ")
			require.True(t, ok, "%q", line)
			script += "echo '>' " + quote(command) + "\n" + command + "\n"
			commands++
		}
	}
	require.Greater(t, commands, 10)

	dir := t.TempDir()
	bin, err := filepath.Abs(*binary)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.Symlink(bin, filepath.Join(dir, "bin", "cordwood")))
	configs, err := filepath.Abs("../../configs")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(configs, filepath.Join(dir, "configs")))

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	_ = kill() // nodes that a failed command left behind
	if err != nil {
		for _, n := range []string{"n1.log", "n2.log", "n3.log"} {
			b, _ := os.ReadFile(filepath.Join(dir, n))
			t.Logf("%s:\n%s", n, b)
		}
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "verdict: ok")
	t.Logf("%s", out)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
