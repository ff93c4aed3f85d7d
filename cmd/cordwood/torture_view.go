package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	recorded "cordwood/integration/history"
	"cordwood/integration/nemesis"
	"cordwood/integration/torture"
)

// tortureView is the result of torture.
type tortureView struct {
	APIVersion string `json:"apiVersion"`
	recorded.Report
	Seed        uint64           `json:"seed"`
	Nodes       int              `json:"nodes"`
	Repeat      string           `json:"repeat"` // the command line
	Seconds     float64          `json:"seconds"`
	PerMinute   float64          `json:"operationsPerMinute"`
	Clients     map[string]int   `json:"clients"`      // operations by the library that did them
	Subscribed  int              `json:"subscribed"`   // how often a client subscribed; 0 where the cluster has no groups
	Faults      map[string]int   `json:"faults"`       // how often each was done
	Classes     map[string]int   `json:"faultClasses"` // the same by class
	Failed      []string         `json:"faultsFailed"` // what could not be done or undone
	Skipped     []string         `json:"faultsSkipped"`
	Losses      int              `json:"lossEvents"` // that the cluster told of
	Unsettled   string           `json:"unsettled"`  // what the cluster lacked long after the last fault was healed; empty: nothing
	Unread      string           `json:"unread"`     // what clients could not read to its end in time; empty: nothing
	Unavailable []tortureSilence `json:"unavailable"`
}

// tortureSilence is a time in which nothing of a topic was acknowledged.
type tortureSilence struct {
	Topic   string  `json:"topic"`
	From    float64 `json:"from"` // seconds since the start
	Seconds float64 `json:"seconds"`
}

func newTortureView(r *torture.Result) *tortureView {
	h := r.History
	v := &tortureView{
		APIVersion: apiVersion, Report: r.Report, Seed: h.Header.Seed, Nodes: h.Header.Nodes, Repeat: "cordwood torture " + strings.Join(h.Header.Flags, " "),
		Clients: r.Clients, Faults: r.Faults, Classes: map[string]int{}, Failed: []string{}, Skipped: r.Skipped, Losses: len(h.Losses), Unavailable: []tortureSilence{},
	}
	for i := range h.Ops {
		if h.Ops[i].F == recorded.Subscribe && h.Ops[i].Type == recorded.OK {
			v.Subscribed++
		}
	}
	for _, f := range h.Faults {
		v.Classes[nemesis.ClassOf(f.Name)]++
		if f.Failed != "" {
			v.Failed = append(v.Failed, f.Name+": "+f.Failed)
		}
	}
	if r.Unsettled != nil {
		v.Unsettled = r.Unsettled.Error()
	}
	if r.Unread != nil {
		v.Unread = r.Unread.Error()
	}
	if n := len(r.Timeline.Steps); n > 0 {
		v.Seconds = float64(n)
		v.PerMinute = float64(r.Report.Operations) / v.Seconds * 60
	}
	for _, s := range r.Timeline.Silences {
		v.Unavailable = append(v.Unavailable, tortureSilence{h.Header.Topics[s.Topic].Name, s.From.Seconds(), (s.To - s.From).Seconds()})
	}
	return v
}

func (v *tortureView) names() []string { return []string{string(v.Verdict)} }

const tortureShown = 5 // examples of an anomaly

func (v *tortureView) table(w io.Writer, wide bool) {
	fmt.Fprintf(w, "TOPIC\tRULE\tDURABILITY\tACKS\tMIN.ACKS\tACKNOWLEDGED\tLONGEST WAIT\tVERDICT\tBECAUSE\n")
	for _, t := range v.Topics {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", t.Name, t.Rule, t.Durability, t.Acks, t.MinAcks, t.Acknowledged, v.longest(t.Name), t.Verdict, t.Because)
	}
	fmt.Fprintln(w)
	if len(v.Faults) == 0 {
		fmt.Fprintln(w, "no faults were done")
	} else {
		var done []string
		for name, n := range v.Faults {
			done = append(done, fmt.Sprintf("%s %d", name, n))
		}
		slices.Sort(done)
		fmt.Fprintf(w, "faults: %s\n", strings.Join(done, ", "))
	}
	for _, s := range v.Skipped {
		fmt.Fprintf(w, "not done: %s\n", s)
	}
	for _, f := range v.Failed {
		fmt.Fprintf(w, "failed: %s\n", f)
	}
	if v.Unsettled != "" {
		fmt.Fprintf(w, "not whole again: %s\n", v.Unsettled)
	}
	if v.Unread != "" {
		fmt.Fprintf(w, "not read to the end: %s\n", v.Unread)
	}
	if v.Losses > 0 {
		fmt.Fprintf(w, "the cluster told of %s that may have lost records\n", count(v.Losses, "election"))
	}
	for _, x := range v.Anomalies {
		if x.Allowed == x.Count && !wide {
			continue
		}
		fmt.Fprintf(w, "%s, %d times (%d allowed):\n", x.Kind, x.Count, x.Allowed)
		for _, e := range x.Examples[:min(len(x.Examples), tortureShown)] {
			fmt.Fprintf(w, "  %s\n", e.Text)
		}
	}
	if len(v.Clients) > 1 {
		var by []string
		for name, n := range v.Clients {
			by = append(by, fmt.Sprintf("%s %d", name, n))
		}
		slices.Sort(by)
		fmt.Fprintf(w, "operations by client library: %s\n", strings.Join(by, ", "))
	}
	if v.Subscribed > 0 {
		fmt.Fprintf(w, "clients subscribed as members of a group %s\n", count(v.Subscribed, "time"))
	}
	fmt.Fprintf(w, "%d operations in %.0f s (%.0f a minute), %d records acknowledged\n", v.Operations, v.Seconds, v.PerMinute, v.Acknowledged)
	fmt.Fprintf(w, "repeat: %s\nverdict: %s\n", v.Repeat, v.Verdict)
}

// longest is the longest time in which nothing of a topic was acknowledged.
func (v *tortureView) longest(topic string) string {
	most := 0.0
	for _, s := range v.Unavailable {
		if s.Topic == topic {
			most = max(most, s.Seconds)
		}
	}
	if most == 0 {
		return "below 1s"
	}
	return fmt.Sprintf("%.1fs", most)
}

// listFaults prints what --faults takes.
func (a *app) listFaults() error {
	for _, k := range nemesis.Kinds() {
		if _, err := fmt.Fprintf(a.out, "%-12s %-10s %s\n", k.Name, k.Class, k.About); err != nil {
			return err
		}
	}
	return nil
}

// tortureProgress tells how far a run is: one line that is written over on a terminal, a line at each phase elsewhere.
func (a *app) tortureProgress() func(torture.Progress) {
	if a.quiet {
		return nil
	}
	last := ""
	return func(p torture.Progress) {
		if !terminal(a.err) {
			if p.Phase != last {
				fmt.Fprintf(a.err, "%s\n", p.Phase)
			}
			last = p.Phase
			return
		}
		of := ""
		if p.Of > 0 {
			of = " of " + p.Of.String()
		}
		faults := ""
		if len(p.Faults) > 0 {
			faults = ", under way: " + strings.Join(p.Faults, ", ")
		}
		fmt.Fprintf(a.err, "\r\x1b[K%s %s%s, %d operations, %d acknowledged, %s so far%s", p.Phase, p.Elapsed.Round(time.Second), of, p.Operations, p.Acknowledged, anomalies(p.Anomalies), faults)
	}
}

func anomalies(n int) string {
	if n == 1 {
		return "1 anomaly"
	}
	return fmt.Sprintf("%d anomalies", n)
}

func (a *app) tortureProgressEnds() {
	if !a.quiet && terminal(a.err) {
		fmt.Fprint(a.err, "\r\x1b[K")
	}
}
