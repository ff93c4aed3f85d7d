package vfs

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writerEnv makes the test binary the process that TestWhatWasSyncedOutlivesKillAndDrop kills.
const writerEnv = "VFS_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled appends numbered lines to files of ten lines each, replaces a state file and tells on standard output
// what is durable. Every line is written in two halves of which only whole ones are synced.
func writeUntilKilled(dir string) error {
	f, err := Dev(dir, nil)
	if err != nil {
		return err
	}
	if err := f.MkdirAll(dir); err != nil {
		return err
	}
	var file File
	var at int64
	for n := 0; ; n++ {
		if n%10 == 0 {
			if file, err = f.Create(path.Join(dir, fmt.Sprintf("%08d", n/10))); err != nil {
				return err
			}
			if err := f.SyncDir(dir); err != nil {
				return err
			}
			at = 0
		}
		line := fmt.Sprintf("line %d\n", n)
		for _, half := range []string{line[:4], line[4:]} {
			if _, err := file.WriteAt([]byte(half), at); err != nil {
				return err
			}
			at += int64(len(half))
		}
		if err := file.Sync(); err != nil {
			return err
		}
		fmt.Println("line", n)
		if err := WriteFile(f, path.Join(dir, "state"), []byte(strconv.Itoa(n))); err != nil {
			return err
		}
		fmt.Println("state", n)
		if n%10 == 9 {
			if err := file.Close(); err != nil {
				return err
			}
		}
	}
}

func TestWhatWasSyncedOutlivesKillAndDrop(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round, mode := range []CrashMode{CrashLose, CrashTear, CrashLose, CrashTear, CrashLose, CrashTear} {
		dir := path.Join(t.TempDir(), "data")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		told := map[string]int{"line": -1, "state": -1}
		scan := bufio.NewScanner(out)
		for left := 2 + rng.IntN(79); scan.Scan(); left-- { // two lines at least
			what, n, _ := strings.Cut(scan.Text(), " ")
			told[what], err = strconv.Atoi(n)
			require.NoError(t, err)
			if left == 0 {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait(), "it was killed")
		require.Positive(t, told["line"])

		d, err := DropUnsynced(dir, JournalDir(dir), mode, seed)
		require.NoError(t, err)
		var lines []string
		for n := 0; ; n++ {
			b, err := ReadFile(OS{}, path.Join(dir, fmt.Sprintf("%08d", n)), 1<<20)
			if err != nil {
				require.ErrorIs(t, err, os.ErrNotExist)
				break
			}
			lines = append(lines, strings.SplitAfter(string(b), "\n")...)
		}
		lines = strings.Split(strings.Join(lines, ""), "\n")
		require.Greater(t, len(lines), told["line"], "round %d: %+v", round, d)
		for n := range told["line"] + 1 {
			require.Equal(t, fmt.Sprint("line ", n), lines[n], "round %d: %+v", round, d)
		}
		if told["state"] >= 0 {
			state, err := strconv.Atoi(content(t, OS{}, path.Join(dir, "state")))
			require.NoError(t, err)
			require.GreaterOrEqual(t, state, told["state"])
			require.LessOrEqual(t, state, told["state"]+1)
		}
	}
}
