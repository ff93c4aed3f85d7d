package containers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// agentWithin bounds an answer of an agent.
const agentWithin = 15 * time.Second

// agent is an Agent in a helper, as its master sees it. Safe for concurrent use.
type agent struct {
	line []string // that starts it

	mu      sync.Mutex // one wish at a time
	cmd     *exec.Cmd  // nil: it does not run
	in      io.WriteCloser
	answers chan answer // closed when it has ended
	cancel  context.CancelFunc
}

// tell sets the rules. One that has ended is started again.
func (a *agent) tell(w wishes) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	line, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if a.cmd == nil {
		if err := a.startLocked(); err != nil {
			return err
		}
	}
	if _, err = a.in.Write(append(line, '\n')); err == nil {
		err = a.heardLocked()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rules of the network: %w", err), a.endLocked())
	}
	return nil
}

func (a *agent) startLocked() error {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := command(ctx, a.line, nil)
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		cancel()
		return err
	}
	answers := make(chan answer, 1)
	go func() { // ends with the output
		defer close(answers)
		s := bufio.NewScanner(out)
		for s.Scan() {
			var said answer
			if err := json.Unmarshal(s.Bytes(), &said); err != nil {
				said = answer{Version: agentVersion, Error: fmt.Sprintf("%.200q", s.Text())}
			}
			answers <- said
		}
	}()
	a.cmd, a.in, a.answers, a.cancel = cmd, in, answers, cancel
	if err := a.heardLocked(); err != nil {
		err = errors.Join(err, a.endLocked())
		return fmt.Errorf("the agent in the container: %w: %.500s", err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// heardLocked waits for one answer.
func (a *agent) heardLocked() error {
	t := time.NewTimer(agentWithin)
	defer t.Stop()
	select {
	case said, ok := <-a.answers:
		switch {
		case !ok:
			return errors.New("it ended")
		case said.Version != agentVersion:
			return fmt.Errorf("it speaks version %d, and this is %d: build the image anew", said.Version, agentVersion)
		case said.Error != "":
			return errors.New(said.Error)
		}
		return nil
	case <-t.C:
		return fmt.Errorf("no answer within %v", agentWithin)
	}
}

// endLocked ends it and waits for that; the rules go with it.
func (a *agent) endLocked() error {
	if a.cmd == nil {
		return nil
	}
	_ = a.in.Close()
	t := time.AfterFunc(agentWithin, a.cancel)
	defer t.Stop()
	for range a.answers { // until its output ends
	}
	err := a.cmd.Wait()
	a.cancel()
	a.cmd = nil
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // its helper may have gone
	}
	return err
}

// Close ends it.
func (a *agent) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.endLocked()
}
