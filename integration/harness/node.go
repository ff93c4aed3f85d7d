package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errEnded is a process that ended by itself.
var errEnded = errors.New("the process ended")

// Node is one node of a Cluster: its addresses, its directory and, while it runs, its process. Methods may be called
// from any goroutine; start, stop and signals of one node are serialised.
type Node struct {
	ID       int
	Dir      string // configuration, data, log
	External string // Kafka listener for clients, host:port
	Internal string // Kafka listener between nodes
	Raft     string
	Gossip   string
	HTTP     string

	command []string // before the binary
	binary  string
	stderr  io.Writer // beside the log file, nil for none

	mu     sync.Mutex // serialises start and stop
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has been waited for
	err    error         // its Wait result; read after exited
	leash  *os.File      // our end of the pipe whose closing ends the child
	paused bool          // by Pause, until Resume or the next start

	pid atomic.Int64 // of the process while it runs, for those who cannot wait for a stop under way; else 0
}

// DataDir is where the node keeps its data.
func (n *Node) DataDir() string { return filepath.Join(n.Dir, "data") }

// ConfigFile is the node's configuration.
func (n *Node) ConfigFile() string { return filepath.Join(n.Dir, "cordwood.yaml") }

// LogFile is what the node wrote to standard error over all its starts.
func (n *Node) LogFile() string { return filepath.Join(n.Dir, "log") }

// BootIDFile stands for the host's boot id, so that a power cut can be staged.
func (n *Node) BootIDFile() string { return filepath.Join(n.Dir, "boot_id") }

// Use makes the next start run another binary.
func (n *Node) Use(binary string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.binary = binary
}

// Start starts the process; it is an error if it runs already. It does not wait until the node is ready.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runningLocked() {
		return fmt.Errorf("node %d runs already", n.ID)
	}
	logs, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	child, leash, err := os.Pipe()
	if err != nil {
		logs.Close()
		return err
	}
	line := append(slices.Clone(n.command), n.binary, "serve", "--config", n.ConfigFile(), "--leash", "3")
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = environment()
	cmd.ExtraFiles = []*os.File{child}
	cmd.Stderr = logs
	if n.stderr != nil {
		cmd.Stderr = io.MultiWriter(logs, n.stderr)
	}
	cmd.Stdout = cmd.Stderr
	// A group of its own: a Ctrl-C on the terminal is for the parent, which decides how its nodes end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	child.Close()
	if err != nil {
		leash.Close()
		logs.Close()
		return err
	}
	exited := make(chan struct{})
	n.cmd, n.leash, n.exited, n.paused = cmd, leash, exited, false
	n.pid.Store(int64(cmd.Process.Pid))
	go func() {
		n.err = cmd.Wait()
		n.pid.Store(0)
		logs.Close()
		leash.Close()
		close(exited)
	}()
	return nil
}

// environment is ours without settings of Cordwood, which would reach into every node.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CORDWOOD_") {
			env = append(env, e)
		}
	}
	return env
}

func (n *Node) runningLocked() bool {
	if n.exited == nil {
		return false
	}
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// Running says that the process was started and has not ended.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runningLocked()
}

// Pid is the process id, 0 when it does not run.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runningLocked() {
		return 0
	}
	return n.cmd.Process.Pid
}

// Kill ends the process with SIGKILL and waits for its end.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL, 10*time.Second) }

// Stop ends the process with SIGTERM and waits for its end, at most for the limit; then it is an error and the process
// is killed.
func (n *Node) Stop(limit time.Duration) error { return n.end(syscall.SIGTERM, limit) }

func (n *Node) end(sig syscall.Signal, limit time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runningLocked() {
		return nil
	}
	if err := n.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-n.exited:
		return nil
	case <-timer.C:
		_ = n.cmd.Process.Kill()
		<-n.exited
		return fmt.Errorf("node %d did not end within %v of %v", n.ID, limit, sig)
	}
}

// Wait waits for the process to end and gives its exit code.
func (n *Node) Wait(ctx context.Context) (int, error) {
	n.mu.Lock()
	cmd, exited := n.cmd, n.exited
	n.mu.Unlock()
	if exited == nil {
		return 0, fmt.Errorf("node %d was never started", n.ID)
	}
	select {
	case <-exited:
		return cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Pause stops the process with SIGSTOP and returns when it stands still: it holds its sockets and answers nothing.
func (n *Node) Pause() error {
	if err := n.signal(syscall.SIGSTOP, true); err != nil {
		return err
	}
	return stopped(n.Pid(), 5*time.Second)
}

// Resume lets a paused process go on.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT, false) }

func (n *Node) signal(sig syscall.Signal, paused bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runningLocked() {
		return fmt.Errorf("node %d does not run", n.ID)
	}
	if err := n.cmd.Process.Signal(sig); err != nil {
		return err
	}
	n.paused = paused
	return nil
}

// Answers says that the process runs and is not paused.
func (n *Node) Answers() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runningLocked() && !n.paused
}

// Ready asks /readyz once.
func (n *Node) Ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode == http.StatusOK
}

// WaitReady asks /readyz every 20 ms until it answers 200, the process ends or ctx does. The error names the log's last
// lines.
func (n *Node) WaitReady(ctx context.Context) error {
	n.mu.Lock()
	exited := n.exited
	n.mu.Unlock()
	if exited == nil {
		return fmt.Errorf("node %d was never started", n.ID)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if n.Ready(ctx) {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("node %d ended before it was ready: %w\n%s", n.ID, errors.Join(errEnded, n.err), n.LogTail(20))
		case <-ctx.Done():
			return fmt.Errorf("node %d is not ready: %w\n%s", n.ID, ctx.Err(), n.LogTail(20))
		case <-tick.C:
		}
	}
}

// LogTail gives the last lines of the node's log.
func (n *Node) LogTail(lines int) string {
	b, err := os.ReadFile(n.LogFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Reboot writes a new boot id, so that the next start counts as one after a power cut of the host.
func (n *Node) Reboot() error {
	return os.WriteFile(n.BootIDFile(), []byte(strconv.FormatInt(time.Now().UnixNano(), 16)+"\n"), 0o644)
}
