package main

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Size of the drawing, and its margins.
const (
	pageWidth, pageHeight = 860.0, 420.0
	pageLeft, pageBottom  = 60.0, 40.0
	pageRight, pageTop    = 20.0, 20.0
	pageNines             = 4.0 // the axis ends at 99.99 %
	pageLeastMax          = 1.0 // milliseconds that the axis shows at least
	pageGridLines         = 5
)

var pageColours = []string{"#1b7f4b", "#1f5fb4", "#b4441f"}

// benchPage is the result as one page without anything from outside: a curve for each rule over the share of records, on
// a scale on which every nine is as wide as the one before.
func benchPage(v *benchView) []byte {
	most := pageLeastMax
	for _, r := range v.Rules {
		for _, p := range r.Curve {
			if p.Quantile <= 99.99 {
				most = max(most, p.Millis)
			}
		}
	}
	x := func(quantile float64) float64 {
		nines := pageNines
		if quantile < 100 {
			nines = min(pageNines, -math.Log10(1-quantile/100))
		}
		return pageLeft + nines/pageNines*(pageWidth-pageLeft-pageRight)
	}
	y := func(millis float64) float64 {
		return pageHeight - pageBottom - min(millis/most, 1)*(pageHeight-pageTop-pageBottom)
	}
	var svg strings.Builder
	for i := range pageGridLines + 1 {
		at := most * float64(i) / pageGridLines
		fmt.Fprintf(&svg, `<line x1="%g" y1="%g" x2="%g" y2="%g" class="grid"/><text x="%g" y="%g" class="left">%.3g ms</text>`,
			pageLeft, y(at), pageWidth-pageRight, y(at), pageLeft-6, y(at)+4, at)
	}
	for _, q := range []float64{0, 50, 90, 99, 99.9, 99.99} {
		fmt.Fprintf(&svg, `<line x1="%g" y1="%g" x2="%g" y2="%g" class="grid"/><text x="%g" y="%g" class="mid">%g %%</text>`,
			x(q), pageTop, x(q), pageHeight-pageBottom, x(q), pageHeight-pageBottom+18, q)
	}
	for i, r := range v.Rules {
		var points []string
		for _, p := range r.Curve {
			if p.Quantile <= 99.99 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.Quantile), y(p.Millis)))
			}
		}
		colour := pageColours[i%len(pageColours)]
		fmt.Fprintf(&svg, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, colour, strings.Join(points, " "))
		fmt.Fprintf(&svg, `<text x="%g" y="%g" fill="%s">%s</text>`, pageLeft+12, pageTop+18+float64(i)*18, colour, template.HTMLEscapeString(r.Rule))
	}
	var out bytes.Buffer
	data := struct {
		*benchView
		SVG template.HTML
	}{v, template.HTML(svg.String())} //nolint:gosec // made above of numbers and escaped names
	if err := benchTemplate.Execute(&out, data); err != nil {
		panic(err) // the template and its data are ours
	}
	return out.Bytes()
}

var benchTemplate = template.Must(template.New("bench").Funcs(template.FuncMap{"yes": func(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Commit rules compared</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse}td,th{padding:.25em .8em;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
.grid{stroke:#e2e2e2}.left{text-anchor:end;font-size:12px;fill:#666}.mid{text-anchor:middle;font-size:12px;fill:#666}svg text{font-size:13px}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#16181a}td,th{border-color:#333}.grid{stroke:#333}.left,.mid{fill:#999}}
</style>
<h1>Commit rules compared</h1>
<p>{{printf "%g" .Rate}} records a second of {{.SizeBytes}} bytes, {{printf "%g" .Seconds}} s for each rule in {{.Rounds}} rounds, on nodes {{range $i, $n := .Nodes}}{{if $i}}, {{end}}{{$n}}{{end}}{{if ge .SlowNode 0}}; node {{.SlowNode}} slower by {{printf "%g" .SlowMillis}} ms{{end}}.</p>
<svg viewBox="0 0 860 420" role="img" aria-label="time to the acknowledgement over the share of records">{{.SVG}}</svg>
<table><tr><th>rule<th>acks<th>p50<th>p99<th>p99.9<th>max<th>records/s<th>failed<th>survives leader loss</tr>
{{range .Rules}}<tr><td>{{.Rule}}<td>{{.Acks}}<td>{{printf "%.2f" .P50}} ms<td>{{printf "%.2f" .P99}} ms<td>{{printf "%.2f" .P999}} ms<td>{{printf "%.2f" .Max}} ms<td>{{printf "%.0f" .PerSecond}}<td>{{.Failed}}<td>{{yes .SurvivesLeaderLoss}}</tr>
{{end}}</table>
{{range .Rules}}<p><b>{{.Rule}}</b> survives {{.Survives}}.</p>
{{end}}</html>
`))
