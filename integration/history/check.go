package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Options say how strictly a history is judged.
type Options struct {
	// WW adds to the cycles that a write comes before the next write in a log. Writes are not isolated, so cycles of them
	// are allowed; what is found without them stands either way.
	WW bool
}

// Check judges a history without Options. It must be valid, as Read gives it. It changes nothing of it.
func Check(h *History) Report { return Options{}.Check(h) }

// Check judges a valid history.
func (o Options) Check(h *History) Report {
	c := &checker{h: h, rules: rulesOf(h), found: map[place]*finding{}, acked: make([]int, len(h.Header.Topics))}
	c.logs = c.readLogs()
	c.checkValues()
	c.checkPolls()
	c.checkSends()
	c.checkWatermarks()
	c.checkCopies()
	c.checkCycles(o.WW)
	return c.report()
}

// checker holds what the checks share.
type checker struct {
	h     *History
	rules *rules
	logs  []*keyLog // by key
	acked []int     // records, by topic
	found map[place]*finding
}

type place struct {
	kind Kind
	key  int
}

type finding struct {
	Anomaly
	allowed []Example // apart from the others, until the end
	rules   map[string]int
}

// find notes one finding. rule allows it, or is empty; show is called only if its example is kept.
func (c *checker) find(kind Kind, key int, rule string, show func() Example) *finding {
	f := c.found[place{kind, key}]
	if f == nil {
		f = &finding{Anomaly: Anomaly{Kind: kind, Topic: c.h.Header.Keys[key].Topic, Key: key}, rules: map[string]int{}}
		c.found[place{kind, key}] = f
	}
	f.Count++
	list := &f.Examples
	if rule != "" {
		f.Allowed++
		f.rules[rule]++
		list = &f.allowed
	}
	if len(*list) < maxExamples {
		e := show()
		e.Allowed = rule
		*list = append(*list, e)
	}
	return f
}

func (c *checker) report() Report {
	r := Report{Verdict: VerdictOK, Operations: len(c.h.Ops), Anomalies: []Anomaly{}, Topics: []TopicReport{}}
	var all []*finding
	for _, f := range c.found {
		f.Examples = append(f.Examples, f.allowed...)
		f.Examples = f.Examples[:min(len(f.Examples), maxExamples)]
		all = append(all, f)
	}
	rank := map[Kind]int{}
	for i, k := range Kinds {
		rank[k] = i
	}
	slices.SortFunc(all, func(a, b *finding) int {
		return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Key, b.Key))
	})
	for _, f := range all {
		r.Anomalies = append(r.Anomalies, f.Anomaly)
	}
	for i := range c.h.Header.Topics {
		t := c.topic(i, all)
		r.Topics = append(r.Topics, t)
		r.Acknowledged += t.Acknowledged
		if t.Verdict == VerdictViolated {
			r.Verdict = VerdictViolated
		}
	}
	for _, a := range r.Anomalies {
		switch {
		case a.Count == a.Allowed:
		case !orderOnly[a.Kind]:
			r.Exit = ExitLost
		case r.Exit == ExitOK:
			r.Exit = ExitOrder
		}
	}
	return r
}

// key names a partition for people.
func (c *checker) key(k int) string { return c.h.Header.key(k) }

func (h *Header) key(k int) string {
	return fmt.Sprintf("%s/%d", h.Topics[h.Keys[k].Topic].Name, h.Keys[k].Partition)
}

// op names an operation for people.
func (c *checker) op(i int) string {
	return fmt.Sprintf("operation %d (process %d)", i, c.h.Ops[i].Process)
}
