package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cordwood/fsm/metadata"
)

// reasonView is one way in which a cluster or node is not well.
type reasonView struct {
	Reason  string   `json:"reason"`
	Count   int      `json:"count"`
	Details []string `json:"details"`
	Next    string   `json:"next,omitempty"` // the command that says more
}

type healthView struct {
	APIVersion string       `json:"apiVersion"`
	Healthy    bool         `json:"healthy"`
	Reasons    []reasonView `json:"reasons"`
}

const detailsShown = 10

func (v *healthView) table(w io.Writer, wide bool) {
	if v.Healthy {
		fmt.Fprintln(w, "HEALTHY")
		return
	}
	fmt.Fprintf(w, "UNHEALTHY  %s\n", count(len(v.Reasons), "reason"))
	for _, r := range v.Reasons {
		shown := r.Details
		if !wide && len(shown) > detailsShown {
			shown = append(shown[:detailsShown:detailsShown], fmt.Sprintf("and %d more (-o wide)", len(r.Details)-detailsShown))
		}
		line := fmt.Sprintf("  %s  %d  %s", r.Reason, r.Count, strings.Join(shown, "; "))
		if r.Next != "" {
			line += "   → " + r.Next
		}
		fmt.Fprintln(w, line)
	}
}

func (v *healthView) names() []string {
	var out []string
	for _, r := range v.Reasons {
		out = append(out, r.Reason)
	}
	return out
}

func newHealthCommand(a *app) *cobra.Command {
	var local, untilHealthy bool
	var source configSource
	cmd := &cobra.Command{Use: "health", Short: "Exit 0 when all is well, 10 when not", Args: takes(0, 0, "no arguments"),
		Long: "Exit 0 when the cluster is well, 10 when not, with the reasons. --local asks only the node of this machine, over\n" +
			"HTTP at http.bind of the configuration that serve reads, whether it is ready.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := a.clusterHealth
			if local {
				cfg, _, err := source.load(a)
				if err != nil {
					return err
				}
				ask = func(ctx context.Context) (*healthView, error) { return localHealth(ctx, cfg.HTTP.Bind) }
			}
			return a.healthUntil(cmd.Context(), ask, untilHealthy)
		}}
	cmd.Flags().BoolVar(&local, "local", false, "Ask only this machine's node whether it is ready")
	cmd.Flags().BoolVar(&untilHealthy, "exit-when-healthy", false, "Ask again until all is well or --timeout ends")
	source.register(cmd)
	return cmd
}

// healthUntil prints one answer, or with until asks again every 100 ms and prints the last answer.
func (a *app) healthUntil(ctx context.Context, ask func(context.Context) (*healthView, error), until bool) error {
	deadline := time.Now().Add(a.timeout)
	return a.show(ctx, &healthView{}, func(ctx context.Context) (view, error) {
		for {
			v, err := ask(ctx)
			wait := until && a.watch == 0 && time.Now().Before(deadline) && ctx.Err() == nil
			switch {
			case err == nil && v.Healthy:
				return v, nil
			case !wait && err != nil:
				return nil, err
			case !wait:
				return v, exit(exitUnhealthy)
			}
			select {
			case <-afterRetry():
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
}

const localTimeout = 2 * time.Second

// localHealth asks the node whose HTTP address is bind. A node that does not answer is not healthy; that is an answer,
// not an error.
func localHealth(ctx context.Context, bind string) (*healthView, error) {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	v := &healthView{APIVersion: apiVersion, Reasons: []reasonView{}}
	add := func(reason, detail string) {
		v.Reasons = append(v.Reasons, reasonView{Reason: reason, Count: 1, Details: []string{detail}})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dialable(bind)+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		add("no answer", err.Error())
		return v, nil
	}
	defer resp.Body.Close()
	var body struct {
		Checks []struct {
			Name    string
			OK      bool
			Warning bool
			Detail  string
		}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&body); err != nil {
		add("no node", fmt.Sprintf("%s answers %s, but not as a node does", bind, resp.Status))
		return v, nil
	}
	for _, c := range body.Checks {
		if !c.OK && !c.Warning {
			add(c.Name, dash(c.Detail))
		}
	}
	if resp.StatusCode != http.StatusOK && len(v.Reasons) == 0 {
		add("not ready", resp.Status)
	}
	v.Healthy = resp.StatusCode == http.StatusOK && len(v.Reasons) == 0
	return v, nil
}

// dialable turns an address to bind into one to dial on this machine.
func dialable(bind string) string {
	host, port, err := net.SplitHostPort(bind)
	if err != nil {
		return bind
	}
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// clusterHealth asks the cluster and names everything that is not well.
func (a *app) clusterHealth(ctx context.Context) (v *healthView, err error) {
	err = a.ask(ctx, func(ctx context.Context, c *client) error {
		cv, err := c.cluster(ctx)
		if err != nil {
			return err
		}
		topics, err := c.describePartitions(ctx, nil)
		if err != nil {
			return err
		}
		minISR, err := c.minISR(ctx, underReplicated(topics))
		if err != nil {
			return err
		}
		v = judgeHealth(cv, topics, minISR)
		return nil
	})
	return v, err
}

func underReplicated(topics []topicView) []string {
	var out []string
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.underReplicated() {
				out = append(out, t.Name)
				break
			}
		}
	}
	return out
}

// judgeHealth is the rule: what counts as not well. minISR is by topic, for topics with an under-replicated partition.
func judgeHealth(cv *clusterView, topics []topicView, minISR map[string]int) *healthView {
	v := &healthView{APIVersion: apiVersion, Reasons: []reasonView{}}
	add := func(reason, next string, details []string) {
		if len(details) > 0 {
			v.Reasons = append(v.Reasons, reasonView{Reason: reason, Count: len(details), Details: details, Next: next})
		}
	}
	if cv.Controller < 0 {
		add("no-controller", "cordwood cluster info", []string{"no node leads the metadata: topics and leaders cannot change"})
	}
	var nodes, offline, underMin, under []string
	for _, n := range cv.Nodes {
		if n.State != "alive" && n.State != "draining" {
			nodes = append(nodes, fmt.Sprintf("node %d is %s", n.ID, n.State))
		}
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			name := fmt.Sprintf("%s/%d", t.Name, p.Partition)
			switch {
			case p.Leader < 0:
				offline = append(offline, name+" has no leader")
			case p.info.Rule == metadata.RuleQuorum && p.facts().Live < p.writeQuorum():
				underMin = append(underMin, fmt.Sprintf("%s: %d of %d replicas alive, a commit needs %d", name, p.facts().Live, len(p.present()), p.writeQuorum()))
			case p.info.Rule != metadata.RuleQuorum && len(p.ISR) < minISR[t.Name]:
				underMin = append(underMin, fmt.Sprintf("%s: %d in sync, acks=all needs %d", name, len(p.ISR), minISR[t.Name]))
			case p.underReplicated():
				under = append(under, fmt.Sprintf("%s: in sync %s of %s", name, ids(p.ISR), ids(p.present())))
			}
		}
	}
	add("node-down", "cordwood node list", nodes)
	add("offline", "cordwood topic list --offline", offline)
	add("under-min-isr", "cordwood topic list --under-replicated", underMin)
	add("under-replicated", "cordwood topic list --under-replicated", under)
	v.Healthy = len(v.Reasons) == 0
	return v
}
