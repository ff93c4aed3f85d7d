package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	recorded "cordwood/integration/history"
	"cordwood/integration/nemesis"
	"cordwood/integration/torture"
	"cordwood/integration/workload"
)

// tortureOptions are the flags of torture.
type tortureOptions struct {
	nodes     int
	duration  time.Duration
	faults    []string
	seed      uint64
	period    time.Duration
	recovery  time.Duration
	processes int
	rate      float64
	client    string
	history   string
	html      string
	keep      bool

	bootstrap []string
	commands  torture.Commands
	compose   string
}

// Bounds of a run.
const (
	tortureMaxNodes     = 9
	tortureMaxTime      = 24 * time.Hour
	tortureMaxProcesses = 256
)

func newTortureCommand(a *app) *cobra.Command {
	var o tortureOptions
	cmd := &cobra.Command{Use: "torture", Short: "Break a cluster under load, and check that nothing acknowledged was lost", Args: takes(0, 0, "no arguments"),
		Long: "Start nodes as child processes on loopback, write and read with Kafka clients to topics of every commit rule, and kill,\n" +
			"pause, cut off, slow down and corrupt nodes meanwhile. Every operation is recorded; in the end everything is healed,\n" +
			"every client reads everything, and the whole history is checked as Jepsen's Kafka tests do: what was lost, came twice,\n" +
			"in another order or too early, and whether the settings of the topic allow that.\n\n" +
			"Groups of sends and polls are transactions where the cluster has them, and all or nothing of one must be read. Every\n" +
			"third client of franz-go subscribes where the cluster has consumer groups; the others are assigned what they read.\n\n" +
			"--faults takes names and classes, separated by commas; --faults help lists them.\n\n" +
			"Exit codes: 0 ok, 20 records lost or shown wrongly, 21 only twice or in another order, 10 nothing of these, but the\n" +
			"cluster did not become whole again; 2, 3 and 9 where the run could not be done.",
		Example: "  cordwood torture --duration 2m --faults all --html report.html\n  cordwood torture --nodes 5 --faults kill,isolate --seed 7\n" +
			"  cordwood torture --compose docker-compose.yml --faults all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.Contains(o.faults, "help") {
				return a.listFaults()
			}
			if len(o.bootstrap) > 0 && cmd.Flags().Changed("nodes") {
				return usage("--nodes and --bootstrap exclude each other: a cluster that runs has its nodes")
			}
			if err := o.composed(cmd); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return a.torture(ctx, &o)
		}}
	f := cmd.Flags()
	f.IntVar(&o.nodes, "nodes", 3, fmt.Sprintf("Number of nodes, 3 to %d", tortureMaxNodes))
	f.DurationVar(&o.duration, "duration", 2*time.Minute, "How long faults are done; healing and reading come on top")
	f.StringSliceVar(&o.faults, "faults", []string{"all"}, "Faults by name or class; none for no faults; help lists them")
	f.DurationVar(&o.period, "period", 5*time.Second, "How long faults are left alone, and as long again nothing is done")
	f.DurationVar(&o.recovery, "recovery", 2*time.Minute, "How long the cluster may take to be whole again after the last fault")
	f.Uint64Var(&o.seed, "seed", 0, "Seed of faults and workload; 0 draws one")
	f.IntVar(&o.processes, "clients", 16, "Clients at a time")
	f.Float64Var(&o.rate, "rate", 1000, "Operations a second of all clients together; 0 for as many as they can")
	f.StringVar(&o.client, "client", workload.Franz, "Client library: franz, or librdkafka or both (in turns) in a binary that has librdkafka")
	f.StringVar(&o.history, "history", "", "File to write the history to, one JSON object a line")
	f.StringVar(&o.html, "html", "", "File to write the report to as one page")
	f.BoolVar(&o.keep, "keep", false, "Keep the nodes' directories, or the topics on a cluster of --bootstrap")
	f.StringSliceVar(&o.bootstrap, "bootstrap", nil, "Addresses of a cluster that runs already; then only the faults that the -cmd flags make possible")
	f.StringVar(&o.compose, "compose", "", "Compose file of a cluster to bring up in containers, beside any that runs; its images must be there")
	f.StringVar(&o.commands.Kill, "kill-cmd", "", "Shell command that kills a node of --bootstrap; {id} is its id")
	f.StringVar(&o.commands.Start, "start-cmd", "", "Shell command that starts it again")
	f.StringVar(&o.commands.Pause, "pause-cmd", "", "Shell command that lets it stand still")
	f.StringVar(&o.commands.Resume, "resume-cmd", "", "Shell command that lets it go on")
	a.shaped(cmd, &tortureView{})
	cmd.AddCommand(newTortureCheck(a), newTortureHold(), newTortureAgent(a), newTortureReap(a))
	return cmd
}

func newTortureCheck(a *app) *cobra.Command {
	var html string
	cmd := &cobra.Command{Use: "check HISTORY", Short: "Check a history that torture has written", Args: takes(1, 1, "a history file"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return pathError(err)
			}
			defer f.Close()
			h, err := recorded.Read(f)
			if err != nil {
				return &failure{code: exitConfig, err: fmt.Errorf("%s: %w", args[0], err)}
			}
			return a.tortured(torture.Judge(h), html)
		}}
	cmd.Flags().StringVar(&html, "html", "", "File to write the report to as one page")
	return a.shaped(cmd, &tortureView{})
}

func (o *tortureOptions) check() error {
	switch {
	case o.nodes < 3 || o.nodes > tortureMaxNodes:
		return usage(fmt.Sprintf("--nodes %d: torture takes 3 to %d nodes", o.nodes, tortureMaxNodes))
	case o.duration < time.Second || o.duration > tortureMaxTime:
		return usage("--duration must be from 1s to 24h")
	case o.period < 100*time.Millisecond || o.period > o.duration:
		return usage("--period must be from 100ms to --duration")
	case o.recovery < time.Second || o.recovery > tortureMaxTime:
		return usage("--recovery must be from 1s to 24h")
	case o.processes < 1 || o.processes > tortureMaxProcesses:
		return usage(fmt.Sprintf("--clients %d: write 1 to %d", o.processes, tortureMaxProcesses))
	case o.rate < 0:
		return usage("--rate must not be negative")
	}
	if err := workload.CheckClient(o.client); err != nil {
		return usage("--client " + o.client + ": " + err.Error())
	}
	if o.seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		o.seed = binary.BigEndian.Uint64(b[:]) >> 1
	}
	return nil
}

// flags repeats the run.
func (o *tortureOptions) flags() []string {
	where := fmt.Sprintf("--nodes=%d", o.nodes)
	if len(o.bootstrap) > 0 {
		where = "--bootstrap=" + strings.Join(o.bootstrap, ",")
	}
	if o.compose != "" {
		where = "--compose=" + o.compose
	}
	out := []string{
		where, fmt.Sprintf("--duration=%s", o.duration), "--faults=" + strings.Join(o.faults, ","),
		fmt.Sprintf("--period=%s", o.period), fmt.Sprintf("--recovery=%s", o.recovery), fmt.Sprintf("--seed=%d", o.seed), fmt.Sprintf("--clients=%d", o.processes), fmt.Sprintf("--rate=%g", o.rate),
	}
	if o.client != "" && o.client != workload.Franz {
		out = append(out, "--client="+o.client)
	}
	for _, c := range [][2]string{{"kill", o.commands.Kill}, {"start", o.commands.Start}, {"pause", o.commands.Pause}, {"resume", o.commands.Resume}} {
		if c[1] != "" {
			out = append(out, fmt.Sprintf("--%s-cmd='%s'", c[0], strings.ReplaceAll(c[1], "'", `'\''`)))
		}
	}
	return out
}

func (a *app) torture(ctx context.Context, o *tortureOptions) (err error) {
	place, session, remove, err := a.torturePlace(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close(), remove()) }()
	opt := torture.Options{
		Place: place, Duration: o.duration, Faults: o.faults, Period: o.period, Recovery: o.recovery, Session: session, Seed: o.seed, Processes: o.processes, Rate: o.rate, Client: o.client,
		Flags: o.flags(), Progress: a.tortureProgress(),
	}
	if o.history != "" {
		f, ferr := os.Create(o.history)
		if ferr != nil {
			return pathError(ferr)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		opt.History = f
	}
	a.note("seed %d", o.seed)
	r, err := torture.Run(ctx, opt)
	a.tortureProgressEnds()
	if errors.Is(err, torture.ErrUnreachable) {
		return &failure{code: exitUnreachable, err: err}
	}
	if errors.Is(err, nemesis.ErrCannot) || errors.Is(err, nemesis.ErrUnknown) {
		return usage(err.Error())
	}
	if err != nil {
		return err
	}
	return a.tortured(r, o.html)
}

// torturePlace gives where the cluster is, after how long it fences a silent node, and what is to be done when all is over.
func (a *app) torturePlace(ctx context.Context, o *tortureOptions) (place torture.Place, session time.Duration, remove func() error, err error) {
	if len(o.bootstrap) > 0 {
		return torture.NewExisting(o.bootstrap, o.commands, o.keep), 0, func() error { return nil }, nil
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, 0, nil, err
	}
	a.clearStale()
	dir, remove, err := makeDemoDir(os.TempDir(), o.keep)
	if err != nil {
		return nil, 0, nil, err
	}
	if o.compose != "" {
		p, err := a.tortureCompose(ctx, o, binary, dir)
		if err != nil {
			return nil, 0, nil, errors.Join(err, remove())
		}
		return p, torture.Session, remove, nil
	}
	if o.keep {
		a.note("data in %s", dir)
	}
	p, err := torture.NewProcesses(torture.ProcessOptions{Binary: binary, Dir: dir, Nodes: o.nodes, Seed: o.seed})
	if err != nil {
		return nil, 0, nil, errors.Join(err, remove())
	}
	return p, torture.Session, remove, nil
}

// tortured prints a result, and gives its exit code.
func (a *app) tortured(r *torture.Result, html string) error {
	if html != "" {
		if err := os.WriteFile(html, torture.Page(r), 0o644); err != nil { //nolint:gosec // a report is for everybody
			return pathError(err)
		}
	}
	if err := a.print(newTortureView(r)); err != nil {
		return err
	}
	if r.Report.Exit != 0 {
		return exit(r.Report.Exit)
	}
	if r.Unsettled != nil {
		return exit(exitUnhealthy)
	}
	return nil
}
