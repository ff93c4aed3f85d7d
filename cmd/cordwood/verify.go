package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verifyView is the result of verify.
type verifyView struct {
	APIVersion            string `json:"apiVersion"`
	Acknowledged          int64  `json:"acknowledged"`
	Found                 int64  `json:"found"`
	Lost                  int64  `json:"lost"`
	Duplicated            int64  `json:"duplicated"`
	Reordered             int64  `json:"reordered"`
	UnacknowledgedPresent int64  `json:"unacknowledgedPresent"`
	Expired               int64  `json:"expired"`
	Verdict               string `json:"verdict"` // ok, lost, duplicated or reordered
}

func (v *verifyView) table(w io.Writer, _ bool) {
	fmt.Fprintf(w, "acknowledged %d   found %d   lost %d   duplicated %d   reordered %d   unacknowledged-but-present %d (allowed)   expired %d\nverdict: %s\n",
		v.Acknowledged, v.Found, v.Lost, v.Duplicated, v.Reordered, v.UnacknowledgedPresent, v.Expired, v.Verdict)
}

func (v *verifyView) names() []string { return []string{v.Verdict} }

// exitCode is 0, 20 when something acknowledged is missing, 21 when records only came twice or in another order.
func (v *verifyView) exitCode() int {
	switch {
	case v.Lost > 0:
		return exitLost
	case v.Duplicated > 0, v.Reordered > 0:
		return exitOutOfOrder
	}
	return exitDone
}

func newVerifyCommand(a *app) *cobra.Command {
	return a.shaped(&cobra.Command{Use: "verify TOPIC FILE...", Short: "Check that every acknowledged record is there, once and in order", Args: takes(2, -1, "a topic and files of produce --acked"),
		Long: `Read a topic up to its high watermark of now and compare it with the files that produce --acked has written.

  lost                     acknowledged, but nowhere, or at another offset than acknowledged
  duplicated               one id at two offsets
  reordered                the number of a tag falls while the offset rises in one partition
  unacknowledged-but-present   ids of the same tags that are in no file: allowed, their acknowledgement was lost on the way
  expired                  acknowledged below the start of the log: deleted by retention, not lost

Exit codes: 0 ok, 20 lost, 21 duplicated or reordered only.`,
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			h := newHistory()
			for _, file := range args[1:] {
				if err := h.readFile(file, a.note); err != nil {
					return err
				}
			}
			v, err := a.verify(cmd.Context(), args[0], h)
			if err != nil {
				return err
			}
			if err := a.print(v); err != nil {
				return err
			}
			if code := v.exitCode(); code != exitDone {
				return exit(code)
			}
			return nil
		}}, &verifyView{})
}

// verify reads the topic and judges it.
func (a *app) verify(ctx context.Context, topic string, h *history) (*verifyView, error) {
	c, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	partitions, err := c.partitionsOf(ctx, topic, nil)
	if err != nil {
		return nil, err
	}
	h.begin()
	starts, err := c.allOffsets(ctx, topic, partitions, -2)
	if err != nil {
		return nil, err
	}
	ends, err := a.endsOver(ctx, c, topic, partitions, h.ends())
	if err != nil {
		return nil, err
	}
	err = a.readLog(ctx, c, &logReader{topic: topic, from: starts, ends: ends}, func(r *kgo.Record) (bool, error) {
		if !r.Attrs.IsControl() {
			h.record(r.Partition, r.Offset, recordID(r))
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	// Retention may have gone on while the log was read.
	if starts, err = c.allOffsets(ctx, topic, partitions, -2); err != nil {
		return nil, err
	}
	v := h.judge(starts)
	for _, m := range h.missing {
		a.note("lost: %s, acknowledged at %s/%d offset %d: %s", m.id, topic, m.partition, m.offset, m.why)
	}
	if extra := v.Lost - int64(len(h.missing)); extra > 0 {
		a.note("and %d more lost", extra)
	}
	return v, nil
}

// endsOver takes the high watermarks. Just after a leader changed, the new leader's may still be behind what it will be
// in a moment: an end below an acknowledged record is asked for again until --timeout.
func (a *app) endsOver(ctx context.Context, c *client, topic string, partitions []int32, over map[int32]int64) (map[int32]int64, error) {
	wait, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for {
		ends, err := c.allOffsets(ctx, topic, partitions, -1)
		if err != nil {
			return nil, err
		}
		below := false
		for p, end := range ends {
			below = below || end < over[p]
		}
		if !below {
			return ends, nil
		}
		select {
		case <-afterRetry():
		case <-wait.Done():
			return ends, ctx.Err()
		}
	}
}
