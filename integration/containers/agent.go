package containers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Hold writes a new boot id to a file and waits until ctx or the process is to end: as long as it runs, the network and the
// volumes of its container are there.
func Hold(ctx context.Context, bootFile string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := writeBoot(bootFile); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// writeBoot makes the next start count as one after a power cut.
func writeBoot(name string) error {
	return os.WriteFile(name, []byte(fmt.Sprintf("%x\n", time.Now().UnixNano())), 0o644) //nolint:gosec // the node reads it
}

// wishes are what a node is not to hear: the whole of it, each time.
type wishes struct {
	Drop []string       `json:"drop"` // addresses from which nothing comes through
	Lose map[string]int `json:"lose"` // per cent of the datagrams from an address
}

// answer is what an agent says: once when it begins, and after each of the wishes.
type answer struct {
	Version int    `json:"version"`
	Error   string `json:"error"`
}

// agentVersion is of what an agent and its master say to each other.
const agentVersion = 1

const wishMost = 1 << 20 // bytes of one line

// errWish is something that makes no sense as a wish.
var errWish = errors.New("not understood")

// decodeWishes reads one line.
func decodeWishes(line []byte) (w wishes, err error) {
	if err := json.Unmarshal(line, &w); err != nil {
		return w, fmt.Errorf("%w: %w", errWish, err)
	}
	check := func(text string) error {
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() {
			return fmt.Errorf("%w: %.50q is no IPv4 address", errWish, text)
		}
		return nil
	}
	for _, a := range w.Drop {
		if err := check(a); err != nil {
			return w, err
		}
	}
	for a, share := range w.Lose {
		if err := check(a); err != nil {
			return w, err
		}
		if share < 0 || share > 100 {
			return w, fmt.Errorf("%w: %d per cent", errWish, share)
		}
	}
	return w, nil
}

// Agent sets rules of the network that it runs in by what it reads, a line at a time, until in ends. Then it takes them away.
func Agent(in io.Reader, out io.Writer) (err error) {
	say := func(err error) error {
		a := answer{Version: agentVersion}
		if err != nil {
			a.Error = strings.ToValidUTF8(err.Error(), "?")
		}
		return json.NewEncoder(out).Encode(a)
	}
	first := setRules(wishes{})
	if err := say(first); err != nil || first != nil {
		return errors.Join(err, first)
	}
	defer func() { err = errors.Join(err, removeRules()) }()
	s := bufio.NewScanner(in)
	s.Buffer(nil, wishMost)
	for s.Scan() {
		w, err := decodeWishes(s.Bytes())
		if err == nil {
			err = setRules(w)
		}
		if err := say(err); err != nil {
			return err
		}
	}
	return s.Err()
}
