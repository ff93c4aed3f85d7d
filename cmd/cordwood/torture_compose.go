package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"cordwood/integration/containers"
	"cordwood/integration/torture"
)

// composed refuses what --compose has no meaning with.
func (o *tortureOptions) composed(cmd *cobra.Command) error {
	if o.compose == "" {
		return nil
	}
	for _, flag := range []string{"nodes", "bootstrap", "keep"} {
		if cmd.Flags().Changed(flag) {
			return usage("--compose and --" + flag + " exclude each other: the file says which nodes there are, and nothing of them stays")
		}
	}
	return nil
}

// tortureCompose gives the cluster of a compose file.
func (a *app) tortureCompose(ctx context.Context, o *tortureOptions, binary, dir string) (torture.Place, error) {
	p, err := torture.NewCompose(ctx, torture.ComposeOptions{
		File: o.compose, Dir: dir, Duration: o.duration, Reap: []string{binary, "torture", "reap"},
	})
	switch {
	case errors.Is(err, containers.ErrEngine):
		return nil, &failure{code: exitUnreachable, err: err}
	case errors.Is(err, containers.ErrSetup):
		return nil, &failure{code: exitConfig, err: err}
	case err != nil:
		return nil, err
	}
	for _, project := range p.Cleared() {
		a.note("removed the containers of %s, left by a torture that was killed", project)
	}
	return p, nil
}

// newTortureHold is what holds the network and the volume of a node in a container.
func newTortureHold() *cobra.Command {
	return &cobra.Command{Use: "hold FILE", Hidden: true, Args: takes(1, 1, "a file"), RunE: func(cmd *cobra.Command, args []string) error {
		return containers.Hold(cmd.Context(), args[0])
	}}
}

// newTortureAgent is what sets rules of the network in a container.
func newTortureAgent(a *app) *cobra.Command {
	return &cobra.Command{Use: "agent", Hidden: true, Args: takes(0, 0, "no arguments"), RunE: func(*cobra.Command, []string) error {
		return containers.Agent(a.in, a.out)
	}}
}

// newTortureReap is what removes the containers of a torture that was killed.
func newTortureReap(a *app) *cobra.Command {
	return &cobra.Command{Use: "reap PROJECT DIRECTORY", Hidden: true, Args: takes(2, 2, "a project and a directory"), RunE: func(cmd *cobra.Command, args []string) error {
		return containers.Reap(context.WithoutCancel(cmd.Context()), a.in, args[0], args[1])
	}}
}
