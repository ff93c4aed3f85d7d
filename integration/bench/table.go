package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// row is one line of the table. A row without a yardstick has an aim for its figure alone.
type row struct {
	what, figure, yardstick, ratio, aim string
	missed                              bool
}

type table struct{ rows []row }

// pair is a figure and its yardstick, measured one right after the other, in the same unit.
type pair struct{ figure, yardstick float64 }

func (p pair) ratio() float64 { return p.figure / p.yardstick }

// median is the pair of the median ratio.
func median(pairs []pair) pair {
	slices.SortFunc(pairs, func(a, b pair) int {
		switch {
		case a.ratio() < b.ratio():
			return -1
		case a.ratio() > b.ratio():
			return 1
		}
		return 0
	})
	return pairs[len(pairs)/2]
}

// atLeast adds a rate whose share of the yardstick should reach aim.
func (t *table) atLeast(what string, p pair, aim float64) {
	t.rows = append(t.rows, row{what, fmt.Sprintf("%.0f MB/s", p.figure), fmt.Sprintf("%.0f MB/s", p.yardstick),
		fmt.Sprintf("%.2f", p.ratio()), fmt.Sprintf(">= %.2f", aim), p.ratio() < aim})
}

// times adds a figure that should reach aim times its yardstick; 0 is no aim.
func (t *table) times(what string, p pair, unit string, aim float64) {
	r := row{what: what, figure: format(p.figure, unit), yardstick: format(p.yardstick, unit), ratio: fmt.Sprintf("%.2f", p.ratio())}
	if aim > 0 {
		r.aim, r.missed = fmt.Sprintf(">= %.2f", aim), p.ratio() < aim
	}
	t.rows = append(t.rows, r)
}

// atMost adds a figure that should stay at or below aim.
func (t *table) atMost(what string, v float64, unit string, aim float64) {
	t.rows = append(t.rows, row{what, format(v, unit), "", "", "<= " + format(aim, unit), v > aim})
}

// multiple adds a time that should be at most aim times its yardstick; 0 is no aim.
func (t *table) multiple(what string, p pair, unit string, aim float64) {
	r := row{what: what, figure: format(p.figure, unit), yardstick: format(p.yardstick, unit), ratio: fmt.Sprintf("%.2f", p.ratio())}
	if aim > 0 {
		r.aim, r.missed = fmt.Sprintf("<= %.2f", aim), p.ratio() > aim
	}
	t.rows = append(t.rows, r)
}

// within adds a figure beside its yardstick that itself should stay at or below aim, in its unit.
func (t *table) within(what string, p pair, unit string, aim float64) {
	t.rows = append(t.rows, row{what, format(p.figure, unit), format(p.yardstick, unit), fmt.Sprintf("%.2f", p.ratio()),
		"<= " + format(aim, unit), p.figure > aim})
}

// reaches adds a figure that should be at or above aim.
func (t *table) reaches(what string, v float64, unit string, aim float64) {
	t.rows = append(t.rows, row{what, format(v, unit), "", "", ">= " + format(aim, unit), v < aim})
}

// plain adds a figure that has no aim.
func (t *table) plain(what string, v float64, unit string) {
	t.rows = append(t.rows, row{what: what, figure: format(v, unit)})
}

func format(v float64, unit string) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	case v >= 1 || v == 0:
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return fmt.Sprintf("%.3f %s", v, unit)
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tfigure\tyardstick\tratio\taim\t")
	for _, r := range t.rows {
		verdict := ""
		if r.missed {
			verdict = "missed"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.figure, r.yardstick, r.ratio, r.aim, verdict)
	}
	return tw.Flush()
}
