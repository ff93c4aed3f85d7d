package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"cordwood/integration/history"
	"cordwood/integration/nemesis"
)

// lossLine is the event of an election that may lose records, as the controller's node logs it.
type lossLine struct {
	Time      time.Time `json:"time"`
	Kind      string    `json:"kind"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	From      int64     `json:"mayBeGoneFrom"`
}

const (
	lossKind    = "DataLossPossible"
	logLineMost = 1 << 20
	noEnd       = int64(1) << 62 // what was lost had no end that anybody knows
)

// readLosses reads what a node told of losses in its log.
func readLosses(name string, h *history.Header) ([]history.Loss, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return lossesIn(f, h)
}

// lossesIn reads what a node wrote.
func lossesIn(log io.Reader, h *history.Header) ([]history.Loss, error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, logLineMost)
	var out []history.Loss
	for lines.Scan() {
		var l lossLine
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Kind != lossKind {
			continue // another event, or a stack
		}
		for key, k := range h.Keys {
			if h.Topics[k.Topic].Name == l.Topic && k.Partition == l.Partition {
				out = append(out, history.Loss{Key: key, From: l.From, To: noEnd, At: l.Time.Sub(h.Began)})
			}
		}
	}
	return out, lines.Err()
}

// explain says of each loss whether media were lost or spoiled that had its key, since all copies were whole: only then may
// it be true of records that had been synced. whole are the moments of which that is known, rising, from the beginning of the
// run on. Nodes have the keys that they have copies of in the end: faults leave replicas where they were.
func explain(losses []history.Loss, copies []history.Copy, faults []history.Fault, whole []time.Duration) {
	for i := range losses {
		l := &losses[i]
		var since time.Duration
		for _, w := range whole {
			if w <= l.At {
				since = w
			}
		}
		l.Media = slices.ContainsFunc(faults, func(f history.Fault) bool {
			over := f.End > 0 && f.End < since
			return nemesis.HitsMedia(f.Name) && f.Start <= l.At && !over && slices.ContainsFunc(copies, func(c history.Copy) bool {
				return c.Key == l.Key && slices.Contains(f.Nodes, c.Node)
			})
		})
	}
}
