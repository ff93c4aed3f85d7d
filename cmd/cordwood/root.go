package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// brokersVariable is the environment's place for --brokers.
const brokersVariable = "CORDWOOD_BROKERS"

// defaultBroker is where a node listens for clients outside its network when nobody says otherwise.
const defaultBroker = "localhost:19092"

// app is what all commands share: the streams and the global flags.
type app struct {
	in       io.Reader
	out, err io.Writer
	environ  []string

	brokers []string
	output  string
	timeout time.Duration
	watch   time.Duration
	quiet   bool
	verbose bool
	noColor bool
	leash   int // file descriptor of a pipe; the process ends at once when its other end is closed
}

const exitCodes = `Exit codes:
  0 done                     7 refused by a rule
  1 other error              8 partial success
  2 bad usage or flags       9 configuration invalid
  3 cannot reach any node   10 unhealthy
  4 not found               20 verify: acknowledged data missing
  5 already exists          21 verify: duplicates or reordering only
  6 not authorised         130 interrupted`

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "cordwood",
		Short: "A replicated log database that speaks the Kafka protocol",
		Long: "A replicated log database that speaks the Kafka protocol.\n\n" +
			exitCodes,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       buildVersion(),
		Args:          noSubcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("cordwood {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err.Error()) })
	f := root.PersistentFlags()
	f.StringSliceVarP(&a.brokers, "brokers", "b", a.defaultBrokers(), "Addresses of nodes, each is tried ("+brokersVariable+")")
	f.StringVarP(&a.output, "output", "o", "table", "Output: table, wide, json, yaml, name, or help for the shape of json")
	f.DurationVar(&a.timeout, "timeout", 10*time.Second, "How long to try")
	f.DurationVar(&a.watch, "watch", 0, "Repeat, every 2s when no time is given (--watch=5s)")
	f.Lookup("watch").NoOptDefVal = "2s"
	f.BoolVarP(&a.quiet, "quiet", "q", false, "No progress or hints on standard error")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "Say on standard error what is asked of which node")
	f.BoolVar(&a.noColor, "no-color", false, "No colour (NO_COLOR)")
	f.IntVar(&a.leash, "leash", 0, "File descriptor of a pipe; the process ends at once when its other end is closed")
	_ = f.MarkHidden("leash")
	root.AddCommand(
		newTopicCommand(a), newPartitionCommand(a), newClusterCommand(a), newNodeCommand(a),
		newProduceCommand(a), newConsumeCommand(a), newVerifyCommand(a), newBenchCommand(a),
		newServeCommand(a), newDemoCommand(a), newTortureCommand(a),
		newConfigCommand(a), newHealthCommand(a), newErrorsCommand(a), newVersionCommand(a), newLogCommand(a),
	)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if a.leash > 0 {
			go holdLeash(a.leash)
		}
		return a.checkFlags(cmd)
	}
	return root
}

func (a *app) defaultBrokers() []string {
	for _, e := range a.environ {
		if v, ok := strings.CutPrefix(e, brokersVariable+"="); ok && v != "" {
			return strings.Split(v, ",")
		}
	}
	return []string{defaultBroker}
}

func (a *app) checkFlags(cmd *cobra.Command) error {
	switch a.output {
	case "table", "wide", "json", "yaml", "name", "help":
	default:
		return usage(fmt.Sprintf("-o %s: write table, wide, json, yaml, name or help", a.output))
	}
	if a.timeout <= 0 {
		return usage("--timeout must be more than 0s")
	}
	if cmd.Flags().Changed("watch") && a.watch < 100*time.Millisecond {
		return usage("--watch must be at least 100ms")
	}
	for _, b := range a.brokers {
		if strings.TrimSpace(b) == "" {
			return usage("--brokers: an address is empty")
		}
	}
	return nil
}

// group is a noun: a command that only holds others.
func group(use, short string, aliases []string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Aliases: aliases, Args: noSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(commands...)
	return c
}

// noSubcommand names the nearest command for one that does not exist.
func noSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	f := usage(fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath()))
	cmd.SuggestionsMinimumDistance = 2
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		f.hint = "did you mean " + cmd.CommandPath() + " " + s[0] + "?"
	} else {
		f.hint = "see " + cmd.CommandPath() + " --help"
	}
	return f
}

// shaped makes a command answer -o help with the shape of its JSON, for which it takes no arguments and asks nobody.
func (a *app) shaped(cmd *cobra.Command, shape any) *cobra.Command {
	return a.shapedBy(cmd, func() any { return shape })
}

// shapedBy is shaped for a command whose flags choose the shape.
func (a *app) shapedBy(cmd *cobra.Command, shape func() any) *cobra.Command {
	takes, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if a.output == "help" && len(args) == 0 {
			return nil
		}
		return takes(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if a.output == "help" {
			return writeShape(a.out, shape())
		}
		return run(cmd, args)
	}
	return cmd
}

// takes checks the number of arguments: at least least, at most most (-1: any number). what names them.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			f := usage(fmt.Sprintf("%s takes %s", cmd.CommandPath(), what))
			f.hint = cmd.UseLine()
			return f
		}
		return nil
	}
}

// note writes a line for people on standard error, unless -q.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// noteVerbose is note, with -v only.
func (a *app) noteVerbose(format string, args ...any) {
	if a.verbose {
		a.note(format, args...)
	}
}

// terminal says that w is a terminal.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// confirm asks before something that cannot be undone. Without a terminal it wants --yes.
func (a *app) confirm(ctx context.Context, yes bool, what string) error {
	if yes {
		return nil
	}
	if !terminal(a.in) {
		return usage(what + " needs --yes: nobody can be asked here")
	}
	fmt.Fprintf(a.err, "%s. Go on? [y/N] ", what)
	answer := make(chan string, 1)
	go func() { // ends with the process: a read of a terminal cannot be broken off
		var s string
		fmt.Fscanln(a.in, &s)
		answer <- s
	}()
	select {
	case s := <-answer:
		if s == "y" || s == "Y" || s == "yes" {
			return nil
		}
		return &failure{code: exitUsage, err: errNotConfirmed}
	case <-ctx.Done():
		return ctx.Err()
	}
}
