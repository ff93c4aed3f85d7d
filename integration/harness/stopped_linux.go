package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stopped waits until every thread of a process has taken note of its SIGSTOP: on a busy machine one may still run for a
// while after the signal was sent.
func stopped(pid int, limit time.Duration) error {
	timeout, tick := time.NewTimer(limit), time.NewTicker(time.Millisecond)
	defer timeout.Stop()
	defer tick.Stop()
	for {
		still, err := still(pid)
		if err != nil || still {
			return err
		}
		select {
		case <-timeout.C:
			return fmt.Errorf("process %d still runs %v after SIGSTOP", pid, limit)
		case <-tick.C:
		}
	}
}

// still says that all threads of a process are stopped.
func still(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return false, err
		}
		// The state follows the name of the command, which is in brackets and may hold anything.
		_, after, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
		if !ok || !strings.HasPrefix(after, "T") {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}
