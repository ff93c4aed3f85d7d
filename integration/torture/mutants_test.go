//go:build mutants

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

var (
	plantFlag  = flag.String("planted", "", "run these alone, separated by commas; healthy is the one without a fault")
	roundsFlag = flag.Int("tries", 3, "runs in which a planted fault must be found")
)

// planted are faults in the broker, and what they show under.
var planted = []struct {
	name   string
	faults string         // of the world
	kinds  []history.Kind // any of these convicts
	more   string         // flags: others than the usual, for what shows at few moments or needs long ones
}{
	{"healthy", "all", nil, ""},
	{"ackEarly", "kill,isolate", lost, ""},
	{"countsSent", "isolate,halves", lost, ""},
	{"truncToHW", "killall", lost, "--period 2s"}, // watermarks are remembered from before the kill
	{"offByOne", "kill,elect", []history.Kind{history.AckOffset}, ""},
	// Only a record that was copied and not acknowledged when its leader changed is appended twice, or whose answer was late.
	{"lostProducers", "kill,elect", []history.Kind{history.Duplicate}, "--period 3s --clients 64 --rate 2000"},
	{"noDedup", "pause", []history.Kind{history.Duplicate}, "--period 3s --clients 64 --rate 2000"},
	{"diskEarly", "powerall", lost, ""},
	{"wLow", "isolate", lost, ""},
	{"serveUnflushed", "isolate", []history.Kind{history.InconsistentOffsets, history.DirtyRead, history.AbortedRead, history.PollSkip, history.NonmonotonicPoll, history.LostWrite}, ""},
	{"amnesiacVotes", "amnesia", lost, ""},
	{"unclean", "amnesia", lost, ""},
}

var lost = []history.Kind{history.LostWrite, history.Unseen, history.LostOnNode, history.CopiesDiffer, history.InconsistentOffsets}

// usual is one run: how long it is, how long faults last and the quiet between them, and how long nodes have to be whole again.
const usual = "--duration 40s --period 4s --recovery 30s"

// TestEveryPlantedFaultIsConvicted runs a cluster with each fault planted until a run convicts it of what it does, and
// acquits the healthy one under all faults.
func TestEveryPlantedFaultIsConvicted(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "cordwood")
	build := exec.Command("go", "build", "-tags", "hashicorpmetrics mutants", "-o", binary, "cordwood/cmd/cordwood")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	missed := 0
	for _, p := range planted {
		if *plantFlag != "" && !slices.Contains(strings.Split(*plantFlag, ","), p.name) {
			continue
		}
		how, ok := "", false
		for try := range *roundsFlag {
			how, ok = judged(t, binary, p.name, p.faults, p.more, p.kinds)
			if ok && p.name != "healthy" || !ok && p.name == "healthy" {
				how = fmt.Sprintf("run %d: %s", try+1, how)
				break
			}
		}
		fmt.Printf("%-16s %-9t %s\n", p.name, ok, how)
		if !ok {
			missed++
		}
	}
	require.Zero(t, missed, "faults that were not judged rightly")
}

// judged does one run. ok: a healthy broker was acquitted, or a planted fault was convicted by one of the kinds.
func judged(t *testing.T, binary, name, faults, more string, kinds []history.Kind) (how string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args := append([]string{"torture", "-q", "-o", "json", "--faults", faults}, strings.Fields(usual+" "+more)...)
	cmd := exec.CommandContext(ctx, binary, args...)
	if name != "healthy" {
		cmd.Env = append(os.Environ(), "PLANTED_FAULT="+name)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return err.Error(), false
	}
	var v struct {
		history.Report
		Repeat string
	}
	if json.Unmarshal(out.Bytes(), &v) != nil {
		return "no verdict: " + strings.TrimSpace(errs.String()), false
	}
	count := map[history.Kind]int{} // of all keys together
	for _, a := range v.Anomalies {
		if n := a.Count - a.Allowed; n > 0 {
			count[a.Kind] += n
			ok = ok || slices.Contains(kinds, a.Kind)
		}
	}
	var found []string
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		found = append(found, fmt.Sprintf("%s %d", kind, count[kind]))
	}
	how = fmt.Sprintf("%s after %d operations: %s (%s)", v.Verdict, v.Operations, strings.Join(found, ", "), v.Repeat)
	if name == "healthy" {
		return how, v.Verdict == history.VerdictOK
	}
	return how, ok
}
