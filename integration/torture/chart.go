package torture

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"cordwood/integration/history"
)

// Size of a chart, and its margins, in units of its view box.
const (
	chartWidth, chartHeight = 960.0, 240.0
	chartLeft, chartRight   = 96.0, 16.0
	chartTop, chartBottom   = 14.0, 28.0
	barHeight, barGap       = 16.0, 4.0
	gridLines               = 4
)

// chart draws lines over the time of a run.
type chart struct {
	b      strings.Builder
	length time.Duration
	most   float64
	height float64
}

func (c *chart) x(at time.Duration) float64 {
	share := min(1, max(0, at.Seconds()/max(1, c.length.Seconds())))
	return chartLeft + share*(chartWidth-chartLeft-chartRight)
}

func (c *chart) y(v float64) float64 {
	return c.height - chartBottom - min(1, max(0, v/c.most))*(c.height-chartTop-chartBottom)
}

// grid draws the axes, the upright one in so many parts; name writes a value of it.
func (c *chart) grid(parts int, name func(v float64) string) {
	for i := range parts + 1 {
		v := c.most * float64(i) / float64(parts)
		fmt.Fprintf(&c.b, `<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" class="grid"/><text x="%g" y="%.1f" class="left">%s</text>`,
			chartLeft, c.y(v), chartWidth-chartRight, c.y(v), chartLeft-6, c.y(v)+4, name(v))
	}
	c.times()
}

// times names points in time below the chart.
func (c *chart) times() {
	step := time.Second
	for _, s := range []time.Duration{5, 10, 20, 30, 60, 120, 300, 600} {
		if c.length/step > 12 {
			step = s * time.Second
		}
	}
	for at := time.Duration(0); at <= c.length; at += step {
		fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="mid">%s</text>`, c.x(at), c.height-8, at)
	}
}

// line draws one value a step. Steps without a value, below 0, leave a gap.
func (c *chart) line(class string, steps []Step, value func(Step) float64) {
	var points []string
	flush := func() {
		if len(points) > 0 {
			fmt.Fprintf(&c.b, `<polyline class="%s" points="%s"/>`, class, strings.Join(points, " "))
		}
		points = nil
	}
	for i, s := range steps {
		v := value(s)
		if v < 0 {
			flush()
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", c.x(time.Duration(i)*timelineStep+timelineStep/2), c.y(v)))
	}
	flush()
}

// shade marks the times of faults.
func (c *chart) shade(faults []history.Fault) {
	for _, f := range faults {
		from, to := c.x(f.Start), c.x(f.End)
		fmt.Fprintf(&c.b, `<rect x="%.1f" y="%g" width="%.1f" height="%g" class="shade"><title>%s</title></rect>`,
			from, chartTop, max(1, to-from), c.height-chartTop-chartBottom, template.HTMLEscapeString(faultLine(f)))
	}
}

func (c *chart) svg(label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">%s</svg>`, //nolint:gosec // of numbers and escaped names
		chartWidth, c.height, template.HTMLEscapeString(label), c.b.String()))
}

// throughputChart draws acknowledged records a second over the faults.
func throughputChart(t Timeline, faults []history.Fault) template.HTML {
	c := &chart{length: time.Duration(len(t.Steps)) * timelineStep, most: 1, height: chartHeight}
	for _, s := range t.Steps {
		c.most = max(c.most, float64(s.Acknowledged), float64(s.Failed))
	}
	c.shade(faults)
	c.grid(gridLines, func(v float64) string { return fmt.Sprintf("%.0f/s", v) })
	c.line("acked", t.Steps, func(s Step) float64 { return float64(s.Acknowledged) })
	c.line("failed", t.Steps, func(s Step) float64 { return float64(s.Failed) })
	return c.svg("acknowledged records and failed operations a second, over the faults")
}

// latencyChart draws the time to an acknowledgement, on a scale on which each line is ten times the one below.
func latencyChart(t Timeline, faults []history.Fault) template.HTML {
	const least = 4.0 // decades of 10 us
	c := &chart{length: time.Duration(len(t.Steps)) * timelineStep, most: least, height: chartHeight}
	decades := func(d time.Duration) float64 {
		if d <= 0 {
			return -1
		}
		return max(0, math.Log10(d.Seconds()/10e-6))
	}
	for _, s := range t.Steps {
		c.most = max(c.most, math.Ceil(decades(s.P99)))
	}
	c.shade(faults)
	c.grid(int(c.most), func(v float64) string { return time.Duration(10e3 * math.Pow(10, v)).String() })
	c.line("p50", t.Steps, func(s Step) float64 { return decades(s.P50) })
	c.line("p99", t.Steps, func(s Step) float64 { return decades(s.P99) })
	return c.svg("time to the acknowledgement, half and 99 of 100, over the faults")
}

// faultChart draws a bar for each fault, a row for each kind.
func faultChart(length time.Duration, faults []history.Fault) template.HTML {
	rows := map[string]int{}
	var names []string
	for _, f := range faults {
		if _, ok := rows[f.Name]; !ok {
			rows[f.Name] = len(rows)
			names = append(names, f.Name)
		}
	}
	c := &chart{length: length, most: 1, height: chartTop + float64(len(names))*(barHeight+barGap) + chartBottom}
	for i, n := range names {
		fmt.Fprintf(&c.b, `<text x="%g" y="%.1f" class="left">%s</text>`, chartLeft-6, chartTop+float64(i)*(barHeight+barGap)+barHeight-4, template.HTMLEscapeString(n))
	}
	for _, f := range faults {
		from, to := c.x(f.Start), c.x(f.End)
		y := chartTop + float64(rows[f.Name])*(barHeight+barGap)
		fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%g" class="bar"><title>%s</title></rect>`, from, y, max(2, to-from), barHeight, template.HTMLEscapeString(faultLine(f)))
		ids := strings.Trim(fmt.Sprint(f.Nodes), "[]")
		if to-from > 7*float64(len(ids)+1) {
			fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" class="in">%s</text>`, from+4, y+barHeight-4, ids)
		}
	}
	c.times()
	return c.svg("the faults over time, with the nodes they were done to")
}

// faultLine is a fault in words.
func faultLine(f history.Fault) string {
	s := fmt.Sprintf("%s of %v, %s to %s", f.Name, f.Nodes, f.Start.Round(100*time.Millisecond), f.End.Round(100*time.Millisecond))
	if f.What != "" {
		s += ": " + f.What
	}
	if f.Failed != "" {
		s += " (" + f.Failed + ")"
	}
	return s
}
