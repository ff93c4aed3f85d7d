package torture

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

// TestThePageNeedsNothingFromOutsideAndEscapesWhatItShows also of a history without anything in it.
func TestThePageNeedsNothingFromOutsideAndEscapesWhatItShows(t *testing.T) {
	require.NotContains(t, string(Page(Judge(&history.History{}))), "NaN")

	h := &history.History{Header: history.Header{Version: history.Version, Nodes: 3, Seed: 7, Flags: []string{"--seed=7"},
		Topics: []history.Topic{{Name: "<t>", Replicas: 3, MinISR: 2, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "all"}}, Keys: []history.Key{{}}}}
	lost := sendOp(0, history.OK, 0, time.Second)
	lost.Mops[0].Send.Offset = 4
	h.Ops = []history.Op{lost, sendOp(0, history.Info, 2*time.Second, 9*time.Second)}
	h.Faults = []history.Fault{{Name: "kill", Nodes: []int{1, 2}, What: "<script>", Start: time.Second, End: 3 * time.Second, Failed: "a & b"}}
	h.Losses = []history.Loss{{Key: 0, From: 9, To: noEnd, At: 10 * time.Second}}
	r := Judge(h)
	r.Unsettled = errors.New("nobody leads <t>/0")
	require.Equal(t, history.VerdictViolated, r.Report.Verdict)
	page := string(Page(r))
	require.NotRegexp(t, regexp.MustCompile(`(?i)<script|src=|href=|url\(|@import|https?:`), page)
	require.NotContains(t, page, "<t>")
	require.Contains(t, page, "&lt;t&gt;")
	require.Contains(t, page, "unseen of &lt;t&gt;/0: 1")
	require.Contains(t, page, "kill of [1 2], 1s to 3s: &lt;script&gt; (a &amp; b)")
	require.Contains(t, page, "&lt;t&gt;/0 from offset 9 on, told after 10s")
	require.Contains(t, page, "cordwood torture --seed=7")
	require.Contains(t, page, "nobody leads &lt;t&gt;/0")
}
