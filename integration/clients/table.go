package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Row is what came out for one client.
type Row struct {
	Name, Version string
	Absent        error    // why it could not be asked anything
	Codecs        []string // those it was asked to write
	ProducerOnly  bool
	Findings      map[string]Findings // by codec
}

// Table is the matrix, clients by checks.
type Table struct {
	Rows  []Row
	Tools []ToolRow
}

// OK says that nothing is amiss; a client that is not installed is, unless that is forgiven. A run without any check is
// never well.
func (t *Table) OK(forgiveAbsent bool) bool {
	done := 0
	for _, r := range t.Rows {
		if r.Absent != nil {
			if !forgiveAbsent || !notInstalled(r.Absent) {
				return false
			}
			continue
		}
		for _, c := range r.Codecs {
			if len(r.Findings[c]) > 0 {
				return false
			}
			done++
		}
	}
	for _, r := range t.Tools {
		if r.Fault != nil {
			if forgiveAbsent && notInstalled(r.Fault) {
				continue
			}
			return false
		}
		done++
	}
	return done > 0
}

// Write prints the table in Markdown.
func (t *Table) Write(w io.Writer) {
	if len(t.Rows) > 0 {
		header := slices.Concat([]string{"client", "version"}, Codecs, Checks[2:])
		writeRow(w, header)
		writeRow(w, slices.Repeat([]string{"---"}, len(header)))
		for _, r := range t.Rows {
			writeRow(w, r.cells())
		}
	}
	if len(t.Tools) > 0 {
		fmt.Fprintln(w)
		writeRow(w, []string{"Kafka's tool", "what it did", ""})
		writeRow(w, slices.Repeat([]string{"---"}, 3))
		for _, r := range t.Tools {
			writeRow(w, []string{r.Tool, r.Did, verdict(r.Fault)})
		}
	}
}

func (r Row) cells() []string {
	cells := []string{r.Name, r.Version}
	if r.Absent != nil {
		return append(append(cells[:1], verdict(r.Absent)), slices.Repeat([]string{""}, len(Codecs)+len(Checks)-2)...)
	}
	for _, codec := range Codecs {
		if !slices.Contains(r.Codecs, codec) {
			cells = append(cells, "–")
			continue
		}
		var fault error
		for _, check := range Checks {
			if err := r.Findings[codec][check]; err != nil {
				fault = err
				break
			}
		}
		cells = append(cells, verdict(fault))
	}
	for _, check := range Checks[2:] {
		if check == "read" && r.ProducerOnly {
			cells = append(cells, "–")
			continue
		}
		var fault error
		for _, codec := range r.Codecs {
			f := r.Findings[codec]
			if f["produce"] != nil {
				fault = f["produce"] // nothing was there to check
			} else if f[check] != nil {
				fault = f[check]
			}
		}
		cells = append(cells, verdict(fault))
	}
	return cells
}

func verdict(fault error) string {
	switch {
	case fault == nil:
		return "ok"
	case notInstalled(fault):
		return "**not installed**"
	}
	return "**miss**"
}

func notInstalled(fault error) bool {
	var a absent
	return errors.As(fault, &a)
}

func writeRow(w io.Writer, cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
