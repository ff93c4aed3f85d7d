// Package loops repeats faults on real nodes under load and checks what clients were told: killed, restarted, cut,
// damaged and rebooted nodes. Its tests carry the build tag "integration" and need a built binary; every one prints a
// table and the seed it ran with.
package loops

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Table collects one line a round and prints them all at the end.
type Table struct {
	head []string
	rows [][]string
}

// NewTable makes a table with these column names.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Add adds a row; values are printed with %v, durations in milliseconds.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if d, ok := c.(time.Duration); ok {
			row[i] = fmt.Sprintf("%d ms", d.Milliseconds())
			continue
		}
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// Print writes the table.
func (t *Table) Print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(t.head, "\t"))
	for _, r := range t.rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	tw.Flush()
}

// Spread describes a distribution: least, middle, 90th of a hundred, greatest.
func Spread(ds []time.Duration) string {
	if len(ds) == 0 {
		return "none"
	}
	ds = slices.Sorted(slices.Values(ds))
	at := func(q float64) int64 { return ds[min(len(ds)-1, int(q*float64(len(ds))))].Milliseconds() }
	return fmt.Sprintf("min %d p50 %d p90 %d max %d ms (%d)", at(0), at(0.5), at(0.9), at(1), len(ds))
}
