package torture

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
	"time"

	"cordwood/integration/history"
)

// page is what the report's template shows.
type page struct {
	*Result
	Length                     time.Duration
	Charts                     []chartOf
	Waits                      []wait
	Bad, Good                  []history.Anomaly // those that the settings do not allow, and the rest
	Repeat                     string
	Operations, PerMinute      int
	Lost                       []history.Loss
	FaultsDone, FaultsNotAsSet int
}

// chartOf is one drawing and what it shows.
type chartOf struct {
	Title, Text string
	SVG         template.HTML
}

// wait is a time without an acknowledgement.
type wait struct {
	Topic    string
	From, Of time.Duration
	During   string
}

// Page is a result as one page that needs nothing from outside.
func Page(r *Result) []byte {
	h := r.History
	p := page{Result: r, Length: time.Duration(len(r.Timeline.Steps)) * timelineStep, Repeat: "cordwood torture " + strings.Join(h.Header.Flags, " "), Lost: h.Losses,
		Operations: r.Report.Operations, FaultsDone: len(h.Faults)}
	if p.Length > 0 {
		p.PerMinute = int(float64(p.Operations) / p.Length.Minutes())
	}
	for _, f := range h.Faults {
		if f.Failed != "" {
			p.FaultsNotAsSet++
		}
	}
	p.Charts = []chartOf{
		{"Acknowledged records a second", "Green: acknowledged; red: operations that failed or of which nobody knows. Shaded: a fault was under way.", throughputChart(r.Timeline, h.Faults)},
		{"Time to the acknowledgement", "Blue: half of the sends were faster; orange: 99 of 100. Every line is ten times the one below.", latencyChart(r.Timeline, h.Faults)},
	}
	if len(h.Faults) > 0 {
		p.Charts = append(p.Charts, chartOf{"Faults", "Numbers are the nodes a fault was done to.", faultChart(p.Length, h.Faults)})
	}
	for _, s := range r.Timeline.Silences {
		p.Waits = append(p.Waits, wait{Topic: h.Header.Topics[s.Topic].Name, From: s.From, Of: s.To - s.From, During: during(h.Faults, s)})
	}
	for _, a := range r.Report.Anomalies {
		if a.Allowed < a.Count {
			p.Bad = append(p.Bad, a)
		} else {
			p.Good = append(p.Good, a)
		}
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		panic(err) // the template and its data are ours
	}
	return out.Bytes()
}

// during names the faults that were under way in a wait.
func during(faults []history.Fault, s Silence) string {
	var names []string
	for _, f := range faults {
		if f.Start < s.To && f.End > s.From {
			names = append(names, fmt.Sprintf("%s %s", f.Name, strings.Trim(fmt.Sprint(f.Nodes), "[]")))
		}
	}
	return strings.Join(names, ", ")
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"round": func(d time.Duration) string { return d.Round(100 * time.Millisecond).String() },
	"minus": func(a, b int) int { return a - b },
	"topic": func(r *Result, key int) string {
		k := r.History.Header.Keys[key]
		return fmt.Sprintf("%s/%d", r.History.Header.Topics[k.Topic].Name, k.Partition)
	},
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Cordwood torture: {{.Report.Verdict}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:1.5em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.5em;margin:.2em 0}h2{font-size:1.15em;margin:1.8em 0 .3em}p{margin:.4em 0}
.verdict{display:inline-block;padding:.1em .7em;border-radius:.3em;color:#fff;font-weight:600}.ok,.allowed{background:#1b7f4b}.violated{background:#b3261e}.allowed{background:#8a6d1a}
.wide{overflow-x:auto;-webkit-overflow-scrolling:touch}.wide svg{display:block;width:100%;min-width:900px}
table{border-collapse:collapse;width:100%}td,th{padding:.3em .7em .3em 0;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}td.n,th.n{text-align:right}
code{font:13px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}ul{padding-left:1.2em}li{overflow-wrap:anywhere}
.grid{stroke:#e2e2e2}.left{text-anchor:end}.mid{text-anchor:middle}svg text{font-size:13px;fill:#555}.shade{fill:#b4441f;opacity:.10}.bar{fill:#b4441f;opacity:.75}svg .in{fill:#fff;font-size:12px}
polyline{fill:none;stroke-width:2}.acked{stroke:#1b7f4b}.failed{stroke:#b3261e}.p50{stroke:#1f5fb4}.p99{stroke:#c77700}
@media(max-width:560px){.cards,.cards tbody,.cards tr,.cards td{display:block}.cards tr:first-child{display:none}.cards tr{border-bottom:1px solid #ddd;padding:.4em 0}.cards td,.cards td.n{border:0;padding:.05em 0;text-align:left}.cards td[data-is]:before{content:attr(data-is) ": ";color:#777}}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#16181a}td,th{border-color:#333}.grid{stroke:#333}svg text{fill:#aaa}}
</style></head><body>
<h1>Torture report <span class="verdict {{.Report.Verdict}}">{{.Report.Verdict}}</span></h1>
<p>{{.Operations}} operations in {{round .Length}} ({{.PerMinute}} a minute), {{.Report.Acknowledged}} records acknowledged, {{.FaultsDone}} faults on {{.History.Header.Nodes}} nodes{{if .FaultsNotAsSet}}, {{.FaultsNotAsSet}} of them not as they should be{{end}}. Began {{.History.Header.Began.UTC.Format "2006-01-02 15:04:05"}} UTC.</p>
{{with .Unsettled}}<p><b>The cluster did not become whole again</b> after the last fault: {{.}}</p>
{{end}}<h2>What was promised, topic by topic</h2>
<div class="wide"><table class="cards"><tr><th>topic<th>commit<th>copies count in<th>acks<th class="n">acknowledged<th>verdict<th>because</tr>
{{range .Report.Topics}}<tr><td><b>{{.Name}}</b><td data-is="commit">{{.Rule}}<td data-is="copies count in">{{.Durability}}<td data-is="acks">{{.Acks}}{{if and (ne .MinAcks "0") (ne .MinAcks "")}}, at least {{.MinAcks}}{{end}}<td class="n" data-is="acknowledged">{{.Acknowledged}}<td><span class="verdict {{.Verdict}}">{{.Verdict}}</span><td class="because">{{.Because}}</tr>
{{end}}</table></div>
{{range .Charts}}<h2>{{.Title}}</h2><div class="wide">{{.SVG}}</div><p>{{.Text}}</p>
{{end}}
{{$r := .Result}}{{if .Bad}}<h2>Anomalies</h2>
{{range .Bad}}<h3>{{.Kind}} of {{topic $r .Key}}: {{minus .Count .Allowed}}</h3><ul>{{range .Examples}}<li>{{.Text}}{{if .Ops}} <code>operations {{.Ops}}</code>{{end}}</li>{{end}}</ul>
{{end}}{{end}}
{{if .Good}}<h2>What the settings allow</h2><ul>{{range .Good}}<li>{{.Kind}} of {{topic $r .Key}}, {{.Count}} times{{with .Examples}}: {{(index . 0).Allowed}}{{end}}</li>{{end}}</ul>{{end}}
{{if .Lost}}<h2>What the cluster told that it may have lost</h2><ul>{{range .Lost}}<li>{{topic $r .Key}} from offset {{.From}} on, told after {{round .At}}</li>{{end}}</ul>{{end}}
{{if .Waits}}<h2>Times without an acknowledgement, a second and more</h2><div class="wide"><table><tr><th>topic<th class="n">from<th class="n">for<th>while</tr>
{{range .Waits}}<tr><td>{{.Topic}}<td class="n">{{round .From}}<td class="n">{{round .Of}}<td>{{.During}}</tr>
{{end}}</table></div>{{end}}
{{if .Skipped}}<h2>Not done</h2><ul>{{range .Skipped}}<li>{{.}}</li>{{end}}</ul>{{end}}
<h2>How to repeat it</h2><p><code>{{.Repeat}}</code></p>
</body></html>
`))
