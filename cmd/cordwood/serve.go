package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"cordwood/cluster/broker"
	"cordwood/configs"
)

// gcPercent lets the collector run less often than by default: most of a node's heap is short-lived buffers of
// requests, which limits.inflight_bytes bounds. GOGC overrides it.
const gcPercent = 200

// errLeash ends a node or a command whose parent has gone.
var errLeash = errors.New("the parent process has gone")

func newServeCommand(a *app) *cobra.Command {
	var source configSource
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node in the foreground",
		Long: `Runs a node until SIGTERM or SIGINT: it then gives its leaders to other nodes, answers what it was asked, flushes its
logs and ends. A second signal ends it at once.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := source.load(a)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, a.err)
		},
	}
	source.register(cmd)
	return cmd
}

// holdLeash ends the process at once when the other end of the pipe is closed, which the kernel does when the parent
// dies in whatever way.
func holdLeash(fd int) {
	f := os.NewFile(uintptr(fd), "leash")
	if f == nil {
		return
	}
	_, _ = io.Copy(io.Discard, f)
	fmt.Fprintln(os.Stderr, errLeash)
	os.Exit(exitOther)
}

// serve runs a node until ctx ends.
func serve(ctx context.Context, cfg *configs.Config, out io.Writer) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	logger := newLogger(cfg.Log, out)
	logger.Info("cordwood starts", "version", buildVersion(), "node", cfg.Node.ID, "cluster", cfg.Cluster.Name, "data_dir", cfg.Node.DataDir)
	b, err := broker.New(broker.Options{Config: cfg, Version: buildVersion(), Logger: logger})
	if err != nil {
		return err
	}
	err = b.Run(ctx)
	if err != nil { // the sentence is printed at the end, once
		return &failure{code: exitOther, err: errors.New(err.Error())} // not the code of a client's trouble with the same cause
	}
	logger.Info("cordwood ended")
	return nil
}

// newLogger writes the node's own log: text on a terminal, one JSON object a line otherwise, unless configured.
func newLogger(cfg configs.Log, out io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // checked by the configuration
	opt := &slog.HandlerOptions{Level: level}
	format := cfg.Format
	if f, ok := out.(*os.File); format == "auto" {
		format = "json"
		if ok && term.IsTerminal(int(f.Fd())) {
			format = "text"
		}
	}
	if format == "text" {
		return slog.New(slog.NewTextHandler(out, opt))
	}
	return slog.New(slog.NewJSONHandler(out, opt))
}
