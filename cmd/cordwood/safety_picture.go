package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"cordwood/fsm/metadata"
)

// pictureWidth is the width of a replica's lane in characters; a range has at least rangeLeast of them.
const (
	pictureWidth = 48
	rangeLeast   = 3
)

// Fills of a lane.
const (
	onDisk   = "█"
	inMemory = "▒"
	absent   = "·"
	untold   = "?"
)

// picture draws one lane for each replica, and a table of what deaths would take.
func (v *safetyView) picture(w io.Writer) {
	fmt.Fprintf(w, "%s/%d   commit %s, %s   leader %s (epoch %d)   HW %s\n", v.topic, v.Partition, v.Rule, v.facts.Durability, nodeName(v.Leader), v.epoch, known(v.HighWatermark))
	widths := v.widths()
	margin := v.margin()
	fmt.Fprintln(w, strings.Repeat(" ", margin)+v.axis(widths))
	for _, r := range v.Replicas {
		fmt.Fprintf(w, "%-*s%s  %s\n", margin, v.head(r), v.lane(r, widths), v.note(r))
	}
	if at := v.watermark(widths); at >= 0 {
		fmt.Fprintf(w, "%s▲ HW\n", strings.Repeat(" ", margin+at))
	}
	fmt.Fprintf(w, "%s on disk   %s in memory   %s not there\n\n", onDisk, inMemory, absent)
	v.fates(w)
}

// head names a replica.
func (v *safetyView) head(r safetyReplica) string {
	s := fmt.Sprintf("%d", r.ID)
	if r.ID == v.Leader {
		s += " L"
	}
	if r.InSync {
		s += " sync"
	}
	return s
}

func (v *safetyView) margin() int {
	m := 0
	for _, r := range v.Replicas {
		m = max(m, len(v.head(r)))
	}
	return m + 2
}

// widths shares the lane among the ranges: by the logarithm of their lengths, so that the newest records, which are few,
// can be seen beside the old ones.
func (v *safetyView) widths() []int {
	var weights []float64
	sum := 0.0
	for _, r := range v.Ranges {
		x := math.Log2(float64(r.End-r.From) + 1)
		weights = append(weights, x)
		sum += x
	}
	room := max(0, pictureWidth-rangeLeast*len(weights))
	var out []int
	for _, x := range weights {
		out = append(out, rangeLeast+int(float64(room)*x/sum))
	}
	return out
}

// axis writes the first offset of each range above it, where there is room.
func (v *safetyView) axis(widths []int) string {
	var b strings.Builder
	at, free := 0, 0
	put := func(offset int64) {
		if s := fmt.Sprint(offset); at >= free {
			b.WriteString(strings.Repeat(" ", at-b.Len()) + s)
			free = at + len(s) + 1
		}
	}
	for i, r := range v.Ranges {
		put(r.From)
		at += widths[i]
	}
	if n := len(v.Ranges); n > 0 {
		put(v.Ranges[n-1].End)
	} else {
		put(v.facts.LogStart)
	}
	return b.String()
}

func (v *safetyView) lane(r safetyReplica, widths []int) string {
	var b strings.Builder
	for i, records := range v.Ranges {
		fill := absent
		switch {
		case r.LogEnd < 0:
			fill = untold
		case slices.Contains(records.OnDisk, r.ID):
			fill = onDisk
		case slices.Contains(records.Holders, r.ID):
			fill = inMemory
		}
		b.WriteString(strings.Repeat(fill, widths[i]))
	}
	return b.String() + "|"
}

// note is what stands behind a lane.
func (v *safetyView) note(r safetyReplica) string {
	if r.LogEnd < 0 {
		return "no answer"
	}
	s := fmt.Sprintf("end %d  on disk %s", r.LogEnd, known(r.Flushed))
	if behind := v.furthest() - r.LogEnd; behind > 0 {
		s += fmt.Sprintf("  %d behind", behind)
	}
	if v.Rule.ElectBy() == metadata.RuleQuorum && !r.Trusted {
		s += "  untrusted: it does not vote until the leader has certified it"
	}
	return s
}

func (v *safetyView) furthest() int64 {
	end := int64(0)
	for _, r := range v.Replicas {
		end = max(end, r.LogEnd)
	}
	return end
}

// watermark is where on the lane the high watermark stands; -1 if nowhere.
func (v *safetyView) watermark(widths []int) int {
	at := 0
	for i, r := range v.Ranges {
		if r.From == v.HighWatermark {
			return at
		}
		if at += widths[i]; r.End == v.HighWatermark {
			return at
		}
	}
	return -1
}

// asked gives the sets of nodes whose death is judged: those of --if-down, else the leader, and the leader with the
// replica that would likely follow it.
func (v *safetyView) asked() [][]int32 {
	if len(v.ifDown) > 0 {
		return [][]int32{v.ifDown}
	}
	var order []int32
	if v.Leader >= 0 {
		order = append(order, v.Leader)
	}
	for _, wantSync := range []bool{true, false} {
		for _, r := range v.Replicas {
			if r.ID != v.Leader && r.InSync == wantSync {
				order = append(order, r.ID)
			}
		}
	}
	var sets [][]int32
	for n := 1; n <= min(2, len(order)); n++ {
		sets = append(sets, order[:n])
	}
	return sets
}

// fates writes what becomes of each range.
func (v *safetyView) fates(w io.Writer) {
	sets := v.asked()
	fmt.Fprint(w, "RECORDS\tON NODES\tON DISK OF")
	for _, down := range sets {
		fmt.Fprintf(w, "\tIF %s", ifDied(down))
	}
	fmt.Fprintln(w, "\tIF ALL LOSE POWER NOW")
	uncommitted := int64(0)
	why := map[string]bool{}
	var reasons []string
	for i, r := range v.Ranges {
		if !r.Acknowledged {
			uncommitted += r.End - r.From
		}
		fmt.Fprintf(w, "%d..%d\t%s\t%s", r.From, r.End-1, ids(r.Holders), ids(r.OnDisk))
		judged := v.facts.Ranges()[i]
		for _, down := range sets {
			fate := v.facts.IfDown(judged, down)
			text := string(fate)
			if fate == metadata.FateOffline {
				text += " (*)"
				if reason := fmt.Sprintf("if %s: %s", strings.ToLower(ifDied(down)), v.facts.WhyOffline(down)); !why[reason] {
					why[reason] = true
					reasons = append(reasons, reason)
				}
			}
			fmt.Fprintf(w, "\t%s", text)
		}
		fmt.Fprintf(w, "\t%s\n", v.powerText(judged))
	}
	for _, reason := range reasons {
		fmt.Fprintf(w, "(*) %s\n", reason)
	}
	what := "uncommitted"
	if v.Leader < 0 { // the high watermark is what some replica remembers
		what = "not known to be committed"
	}
	fmt.Fprintf(w, "%s: %s\n", what, count(int(uncommitted), "record"))
}

func ifDied(down []int32) string {
	if len(down) == 1 {
		return fmt.Sprintf("%d DIES", down[0])
	}
	var words []string
	for _, id := range down {
		words = append(words, fmt.Sprint(id))
	}
	return strings.Join(words[:len(words)-1], ", ") + " AND " + words[len(words)-1] + " DIE"
}

func (v *safetyView) powerText(r metadata.RecordRange) string {
	switch v.facts.IfPowerLost(r) {
	case metadata.FateSafe:
		return "safe"
	case metadata.FateOffline:
		return "on disk of " + ids(r.OnDisk) + ", election flagged"
	}
	return "lost"
}
