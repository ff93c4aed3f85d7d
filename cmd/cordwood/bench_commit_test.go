package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

func TestWrongFlagsOfABenchmarkAreRefusedBeforeAnythingIsMade(t *testing.T) {
	for _, args := range []string{
		"--rate 0", "--rate fast", "--rate NaN", "--size 0", "--size 1GiB", "--duration 1ms", "--rounds 0", "--duration 1s --rounds 100",
		"--slow-node 3", "--slow-node 3:40ms", "--slow-node x:+40ms", "--slow-node 3:+1h", "--slow-node 3:+-1s", "--rules leader,leader", "--rules both", "--durability paper",
	} {
		r := cordwood(t, "127.0.0.1:1", "", append([]string{"bench", "commit"}, strings.Fields(args)...)...)
		if r.code != exitUsage {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if id, by, err := slowNode("n3:+40ms"); id != 3 || by != 40*time.Millisecond || err != nil {
		t.Error(id, by, err)
	}
	f := threeNodes(t) // one alive, one draining, one dead
	if r := cordwood(t, f.addr, "", "bench", "commit"); r.code != exitRefused || !strings.Contains(r.err, "nodes alive: 1 of 3") {
		t.Error(r)
	}
}

// measuredBench is a result with made up figures.
func measuredBench() *benchView {
	v := &benchView{APIVersion: apiVersion, Rate: 2000, SizeBytes: 1024, Seconds: 10, Rounds: 5, Nodes: []int32{1, 2, 3}, SlowNode: 3, SlowMillis: 40}
	for i, name := range []string{"leader", "quorum", "isr"} {
		rule, _ := benchRules(name, "")
		x := benchRuleResult{Rule: name, Acks: rule.acks, Records: 20000, PerSecond: 2000, P50: 1, P99: 2, P999: 3, Max: 4 + float64(40*i), CompletedBy: map[string]int64{"2": 3, "3": 1}}
		for n, q := range benchQuantiles {
			x.Curve = append(x.Curve, benchPoint{q, float64(n + i)})
		}
		settings := map[string]string{"commit.durability": "memory", "min.acks": "all", "commit.rule": "isr"}
		for _, s := range rule.settings {
			settings[s.key] = s.value
		}
		commit := commitOf(settings)
		x.judge(commit)
		v.Rules = append(v.Rules, x)
	}
	return v
}

func TestABenchmarkIsShownWithWhatEachRuleSurvives(t *testing.T) {
	v := measuredBench()
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	v.table(tw, false)
	tw.Flush()
	golden(t, "bench-commit.txt", b.String())
}

func TestTheCurvesAreOnePageWithoutAnythingFromOutside(t *testing.T) {
	page := string(benchPage(measuredBench()))
	for _, outside := range []string{"http:", "https:", "src=", "href=", "url(", "<script"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %s", outside)
		}
	}
	if n := strings.Count(page, "<polyline"); n != 3 {
		t.Errorf("%d curves", n)
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page has figures that are none")
	}
	from, to := strings.Index(page, "<svg"), strings.Index(page, "</svg>")
	d := xml.NewDecoder(strings.NewReader(page[from : to+len("</svg>")]))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
