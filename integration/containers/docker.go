// Package containers runs the nodes of a compose file as containers for fault tests: it brings them up in a project of its
// own, breaks them as nemesis.Cluster wants it, and takes away whatever it made, also when its process is killed.
//
// It drives the docker and compose command lines. Beside each node's container stands a helper, which holds the node's network
// and its volume while the node is down: addresses stay, rules of the network hold over a restart, and a volume in memory keeps
// what it has.
package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// What keeps a run from beginning.
var (
	// ErrSetup is something that its user has to put right: a program that is not installed, a file that says too little.
	ErrSetup = errors.New("the compose cluster cannot be made")
	// ErrEngine is a Docker engine that does not answer, or does not let us in.
	ErrEngine = errors.New("the Docker engine does not answer")
)

const (
	callWithin  = 30 * time.Second // a call of the docker command line
	afterCancel = 5 * time.Second  // from the end of its context to its kill
	errorMost   = 1000             // bytes of what a command complained of
)

// docker are the command lines. Safe for concurrent use.
type docker struct {
	compose []string // the compose command
	env     []string // nil: ours
}

// newDocker finds the command lines and asks the engine.
func newDocker(ctx context.Context) (*docker, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, fmt.Errorf("%w: docker is not installed", ErrSetup)
	}
	d := &docker{}
	if _, err := d.run(ctx, "version", "--format", "{{.Server.Version}}"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEngine, err)
	}
	if _, err := d.run(ctx, "compose", "version"); err == nil {
		d.compose = []string{"docker", "compose"}
	} else if _, err := exec.LookPath("docker-compose"); err == nil {
		d.compose = []string{"docker-compose"}
	} else {
		return nil, fmt.Errorf("%w: neither docker compose nor docker-compose is installed", ErrSetup)
	}
	return d, nil
}

// run calls docker and gives what it printed.
func (d *docker) run(ctx context.Context, args ...string) (string, error) {
	return d.call(ctx, callWithin, append([]string{"docker"}, args...))
}

// composed calls compose for a project and its file.
func (d *docker) composed(ctx context.Context, within time.Duration, file, project string, args ...string) (string, error) {
	line := append([]string{}, d.compose...)
	line = append(line, "-f", file, "-p", project)
	return d.call(ctx, within, append(line, args...))
}

// both calls docker and gives what it printed on either stream.
func (d *docker) both(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	out, err := command(ctx, append([]string{"docker"}, args...), d.env).CombinedOutput()
	return string(out), err
}

func (d *docker) call(ctx context.Context, within time.Duration, line []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	cmd := command(ctx, line, d.env)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		text := strings.TrimSpace(complaint.String())
		return "", fmt.Errorf("%s: %w: %s", strings.Join(line[:min(len(line), 6)], " "), err, text[:min(len(text), errorMost)])
	}
	return out.String(), nil
}

// command is one of a process group of its own: Ctrl-C is for us, who then end what it began.
func command(ctx context.Context, line, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = afterCancel
	return cmd
}

// lines are what a command printed, without empty ones.
func lines(out string) []string {
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' })
}
