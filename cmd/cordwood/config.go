package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cordwood/configs"
)

// configSource is where a command that runs or looks at a node takes the configuration from.
type configSource struct {
	file string
	sets []string
}

// register adds --config and --set.
func (s *configSource) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.file, "config", "", "Configuration file (default: "+configs.DefaultPath+" where it exists)")
	cmd.Flags().StringArrayVar(&s.sets, "set", nil, "A configuration key over file and environment, key=value; may be repeated")
}

// load reads the configuration. What is wrong with it is an error of exit code 9.
func (s *configSource) load(a *app) (*configs.Config, *configs.Sources, error) {
	flags := map[string]string{}
	sets, err := keyValues("--set", s.sets)
	if err != nil {
		return nil, nil, err
	}
	for _, kv := range sets {
		flags[kv.key] = kv.value
	}
	return configs.Load(configs.Path(s.file), flags, a.environ)
}

type settingView struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Source  string `json:"source"` // default, file, environment or flag
	Where   string `json:"where"`  // file:line:column, the variable or the flag; "" for a default
	Env     string `json:"env"`
	Unit    string `json:"unit"`
	Doc     string `json:"doc"`
}

type settingsView struct {
	APIVersion string        `json:"apiVersion"`
	Settings   []settingView `json:"settings"`
}

func (v *settingsView) table(w io.Writer, wide bool) {
	fmt.Fprint(w, "KEY\tVALUE\tSOURCE\tWHERE")
	if wide {
		fmt.Fprint(w, "\tDEFAULT\tENVIRONMENT\tMEANING")
	}
	fmt.Fprintln(w)
	for _, s := range v.Settings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", s.Key, dash(s.Value), s.Source, dash(s.Where))
		if wide {
			fmt.Fprintf(w, "\t%s\t%s\t%s", dash(s.Default), s.Env, s.Doc)
		}
		fmt.Fprintln(w)
	}
}

func (v *settingsView) names() []string {
	var out []string
	for _, s := range v.Settings {
		out = append(out, s.Key)
	}
	return out
}

func viewSettings(list []configs.Setting) *settingsView {
	v := &settingsView{APIVersion: apiVersion, Settings: []settingView{}}
	for _, s := range list {
		v.Settings = append(v.Settings, settingView{Key: s.Key.Name, Value: s.Value, Default: s.Key.Default, Source: string(s.Source), Where: s.Where,
			Env: s.Key.Env(), Unit: s.Key.Unit, Doc: s.Key.Doc})
	}
	return v
}

type checkedView struct {
	APIVersion string      `json:"apiVersion"`
	Valid      bool        `json:"valid"`
	Faults     []faultView `json:"faults"`

	path string
}

type faultView struct {
	Where string `json:"where"` // file:line:column, file, variable or flag
	Text  string `json:"text"`
}

func (v *checkedView) table(w io.Writer, _ bool) {
	if v.Valid {
		fmt.Fprintf(w, "%s: valid\n", v.path)
	}
}

func (v *checkedView) names() []string { return nil }

func newConfigCommand(a *app) *cobra.Command {
	return group("config", "Check and print a node's configuration", nil, newConfigCheck(a), newConfigPrint(a))
}

func newConfigCheck(a *app) *cobra.Command {
	return a.shaped(&cobra.Command{Use: "check FILE", Short: "Find everything that is wrong in a configuration file", Args: takes(1, 1, "a file"),
		Long: "Find everything that is wrong in a configuration file, together with the environment as it is here.",
		RunE: func(cmd *cobra.Command, args []string) error {
			v := &checkedView{APIVersion: apiVersion, Valid: true, Faults: []faultView{}, path: args[0]}
			_, _, err := configs.Load(args[0], nil, a.environ)
			var faults configs.Faults
			ok := errors.As(err, &faults)
			if err != nil && (!ok || a.output != "json" && a.output != "yaml") {
				return err
			}
			for _, f := range faults {
				where := strings.TrimSuffix(f.String(), ": "+f.Text)
				v.Valid, v.Faults = false, append(v.Faults, faultView{where, f.Text})
			}
			if err := a.print(v); err != nil {
				return err
			}
			if !v.Valid {
				return exit(exitConfig)
			}
			return nil
		}}, &checkedView{})
}

func newConfigPrint(a *app) *cobra.Command {
	var source configSource
	var effective, defaults, changed bool
	cmd := &cobra.Command{Use: "print", Short: "Print every key with its value and where that comes from", Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.output == "help" {
				return writeShape(a.out, &settingsView{})
			}
			if effective && defaults || effective && changed || defaults && changed {
				return usage("--effective, --defaults and --changed exclude each other")
			}
			if defaults {
				_, s := configs.Defaults()
				return a.print(viewSettings(s.All()))
			}
			_, s, err := source.load(a)
			if err != nil {
				return err
			}
			if changed {
				return a.print(viewSettings(s.Changed()))
			}
			return a.print(viewSettings(s.All()))
		}}
	cmd.Flags().BoolVar(&effective, "effective", false, "What is in force, from file, environment and --set (as when nothing is said)")
	cmd.Flags().BoolVar(&defaults, "defaults", false, "The defaults")
	cmd.Flags().BoolVar(&changed, "changed", false, "Only what differs from the defaults")
	source.register(cmd)
	return cmd
}
