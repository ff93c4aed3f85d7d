package history

import (
	"fmt"
	"slices"
	"strings"
)

// topic gives the verdict of one topic from all findings, which are in the order of reports.
func (c *checker) topic(t int, all []*finding) TopicReport {
	r := TopicReport{Topic: c.h.Header.Topics[t], Acknowledged: c.acked[t], Verdict: VerdictOK, Allowed: []Allowance{}}
	var bad []string
	for _, f := range all {
		if f.Topic != t {
			continue
		}
		if n := f.Count - f.Allowed; n > 0 {
			r.Verdict = VerdictViolated
			bad = append(bad, fmt.Sprintf("%s: %d in %s", f.Kind, n, c.key(f.Key)))
		}
		var names []string
		for rule := range f.rules {
			names = append(names, rule)
		}
		slices.Sort(names)
		for _, rule := range names {
			r.allow(Allowance{f.Kind, f.rules[rule], rule})
		}
	}
	switch {
	case r.Verdict == VerdictViolated:
		r.Because = strings.Join(bad, ", ")
	case slices.ContainsFunc(r.Allowed, func(a Allowance) bool { return !usual[a.Rule] }):
		r.Verdict = VerdictAllowed
		var parts []string
		for _, a := range r.Allowed {
			if usual[a.Rule] {
				continue
			}
			parts = append(parts, fmt.Sprintf("%s: %d (%s)", a.Kind, a.Count, a.Rule))
		}
		r.Because = strings.Join(parts, ", ")
	default:
		r.Because = fmt.Sprintf("nothing was wrong with %d acknowledged records", r.Acknowledged)
	}
	return r
}

// allow adds to what other keys of the topic were allowed by the same rule.
func (r *TopicReport) allow(a Allowance) {
	for i := range r.Allowed {
		if b := &r.Allowed[i]; b.Kind == a.Kind && b.Rule == a.Rule {
			b.Count += a.Count
			return
		}
	}
	r.Allowed = append(r.Allowed, a)
}
