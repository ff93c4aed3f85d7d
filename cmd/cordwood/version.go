package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by -ldflags "-X main.version=v0.x.y+<commit>".
var version string

// release is the version of a build that sets none.
const release = "v0.1.0"

// buildVersion is never empty: a build without -ldflags names the commit that the toolchain recorded.
func buildVersion() string {
	if version != "" {
		return version
	}
	commit := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				commit = s.Value[:12]
			}
		}
	}
	return release + "+" + commit
}

type versionView struct {
	APIVersion string `json:"apiVersion"`
	Version    string `json:"version"`
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
}

func (v versionView) table(w io.Writer, wide bool) {
	fmt.Fprintf(w, "cordwood %s\n", v.Version)
	if wide {
		fmt.Fprintf(w, "%s %s/%s\n", v.Go, v.OS, v.Arch)
	}
}

func (v versionView) names() []string { return []string{v.Version} }

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.output == "help" {
				return writeShape(a.out, versionView{})
			}
			return a.print(versionView{apiVersion, buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH})
		}}
}
