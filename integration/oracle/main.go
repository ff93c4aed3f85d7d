// oracle asks a Kafka-protocol cluster fixed questions, byte for byte, and keeps the answers.
//
//	oracle record  -b ADDR -out DIR [-only PREFIXES]       ask, write one JSON file a scenario
//	oracle compare -b ADDR -fixtures DIR [-only PREFIXES] [-explained FILE] [-v]
//	                                                     ask again, print every step whose answer differs; exit 1 if any
//	oracle node    -bin PATH -fixtures DIR [-only PREFIXES] [-explained FILE] [-v]
//	                                                     compare with a fresh node of ours, started for it
//	oracle list                                          the scenarios
//	oracle proxy   -listen ADDR -b ADDR -out FILE        pass clients on, write their request frames
//	oracle replay  -b ADDR -fixtures FILE                send recorded frames again; every answer must decode
//
// PREFIXES are those of scenario names, with commas between. FILE explains differences that are meant, one a line:
// scenario, tab, step (a * stands for any letters), tab, why. Explained steps do not count; a line that explains
// nothing does. Two lines may stand for many: "absent", tab, numbers of APIs that the server lacks, tab, why; "extra",
// tab, names of settings that it has beyond Kafka's, tab, why. Both are left out where APIs and settings are listed, so
// that the rest of those answers is still compared.
//
// The cluster must be fresh: scenarios create topics and groups under fixed
// names. Answers are normalised: values that legitimately differ (topic ids,
// member ids, producer ids, cluster id, hosts, ports, times, throttling) become
// tokens, free text becomes "<text>". What remains is what a client can rely on.
// A fixture directory says which server and version answered.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
)

// repeated bounds the names of differing steps that are printed at last, for logs of which only the end is kept.
const repeated = 20

func main() {
	if len(os.Args) < 2 {
		fmt.Println("usage: oracle record|compare|list ...")
		os.Exit(2)
	}
	fs := flag.NewFlagSet("oracle", flag.ExitOnError)
	addr := fs.String("b", "127.0.0.1:9092", "broker address")
	out := fs.String("out", "", "directory to write")
	fix := fs.String("fixtures", "", "directory of recorded answers")
	only := fs.String("only", "", "prefixes of scenario names, with commas between")
	explained := fs.String("explained", "", "compare: file of differences that are meant")
	bin := fs.String("bin", "bin/cordwood", "node: the binary to start")
	listen := fs.String("listen", "127.0.0.1:9092", "proxy: address to listen on")
	verbose := fs.Bool("v", false, "print every step")
	_ = fs.Parse(os.Args[2:]) // exits on errors
	names := chosen(*only)
	switch os.Args[1] {
	case "proxy":
		proxy(*listen, *addr, *out)
	case "replay":
		replay(*addr, *fix)
	case "list":
		for _, n := range names {
			fmt.Println(n)
		}
	case "record":
		record(*addr, *out, names)
	case "compare":
		exit(compare(*addr, *fix, names, readExplained(*explained), 1, *verbose))
	case "node":
		exit(compareNode(*bin, *fix, names, readExplained(*explained), *verbose))
	default:
		must(fmt.Errorf("unknown command %q", os.Args[1]))
	}
}

func exit(differ int) {
	if differ > 0 {
		os.Exit(1)
	}
}

// chosen gives the scenarios whose names have one of the prefixes, sorted.
func chosen(prefixes string) []string {
	var names []string
	for n := range scenarios {
		if slices.ContainsFunc(strings.Split(prefixes, ","), func(p string) bool { return strings.HasPrefix(n, p) }) {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	return names
}

// record asks and writes one file of answers a scenario.
func record(addr, out string, names []string) {
	must(os.MkdirAll(out, 0o755))
	for _, n := range names {
		r := newRun(addr, n)
		r.play(scenarios[n])
		must(os.WriteFile(filepath.Join(out, n+".json"), encode(r.steps), 0o644))
		fmt.Printf("%-28s %d steps\n", n, len(r.steps))
	}
}

// compare asks, so many scenarios at once, prints what differs from the recorded answers without being explained, at last
// the names of those steps once more, and counts them.
func compare(addr, fixtures string, names []string, known differences, atOnce int, verbose bool) (differ int) {
	runs := playAll(addr, names, known, atOnce)
	steps, silent := 0, 0
	var named []string
	for i, n := range names {
		want, err := recorded(fixtures, n, known)
		if err != nil {
			fmt.Printf("%-28s no fixture: %v\n", n, err)
			differ++
			continue
		}
		r := runs[i]
		d, e := diff(n, want, r.steps, known.meant, verbose)
		steps, differ, silent = steps+len(r.steps), differ+len(d), silent+e
		fmt.Printf("%-28s %d steps, %d differ, %d explained\n", n, len(r.steps), len(d), e)
		for _, step := range d {
			named = append(named, n+": "+step)
		}
	}
	for _, m := range known.meant {
		if !m.used && slices.Contains(names, m.scenario) {
			fmt.Printf("%s: the line on %q explains nothing\n", m.scenario, m.step)
			differ++
		}
	}
	for _, name := range named[:min(len(named), repeated)] {
		fmt.Println("differs:", name)
	}
	fmt.Printf("steps %d differ %d explained %d\n", steps, differ, silent)
	return differ
}

// playAll asks scenarios. They keep out of each other's way: each has topics of its own, and looks at those alone where an
// answer lists everything.
func playAll(addr string, names []string, known differences, atOnce int) []*run {
	runs := make([]*run, len(names))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, n := range names {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			runs[i] = newRun(addr, n)
			runs[i].extra = known.extra
			runs[i].play(scenarios[n])
		})
	}
	wg.Wait()
	return runs
}

// recorded reads the answers of a scenario, without the APIs that are known to be absent.
func recorded(fixtures, scenario string, known differences) ([]Step, error) {
	raw, err := os.ReadFile(filepath.Join(fixtures, scenario+".json"))
	if err != nil {
		return nil, err
	}
	var want []Step
	if err := json.Unmarshal(raw, &want); err != nil {
		return nil, err
	}
	for i := range want {
		want[i].Answer = without(want[i].Answer, known.absent)
	}
	return want, nil
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	must(e.Encode(v))
	return b.Bytes()
}

// without leaves APIs of the given numbers out of an answer that lists APIs.
func without(answer any, keys map[string]bool) any {
	if m, ok := answer.(map[string]any); ok {
		if l, ok := m["ApiKeys"].([]any); ok {
			m["ApiKeys"] = slices.DeleteFunc(l, func(e any) bool { return keys[fmt.Sprint(e.(map[string]any)["ApiKey"])] })
		}
	}
	return answer
}

// A meantDifference is one line of the file of explained differences.
type meantDifference struct {
	scenario, step, why string
	pattern             *regexp.Regexp
	used                bool
}

// differences is the file of explained differences: single ones, the numbers of APIs that the server lacks, and the names
// of settings that it has beyond Kafka's.
type differences struct {
	meant         []*meantDifference
	absent, extra map[string]bool
}

// readExplained reads a file of differences; the empty name is an empty file.
func readExplained(file string) differences {
	d := differences{absent: map[string]bool{}, extra: map[string]bool{}}
	if file == "" {
		return d
	}
	raw, err := os.ReadFile(file)
	must(err)
	for i, line := range strings.Split(string(raw), "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || strings.TrimSpace(f[2]) == "" {
			must(fmt.Errorf("%s:%d: not scenario, step and reason with tabs between", file, i+1))
		}
		switch f[0] {
		case "absent":
			for _, k := range strings.Fields(f[1]) {
				d.absent[k] = true
			}
			continue
		case "extra":
			for _, n := range strings.Fields(f[1]) {
				d.extra[n] = true
			}
			continue
		}
		p := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(f[1]), `\*`, ".*") + "$")
		d.meant = append(d.meant, &meantDifference{f[0], f[1], f[2], p, false})
	}
	return d
}

// diff prints the steps of got that do not answer as want does, and those that are missing; it names them and counts the
// explained ones.
func diff(scenario string, want, got []Step, meant []*meantDifference, verbose bool) (differ []string, explained int) {
	allowed := func(step string) bool {
		for _, m := range meant {
			if m.scenario == scenario && m.pattern.MatchString(step) {
				m.used = true
				explained++
				if verbose {
					fmt.Printf("  %s: differs, %s\n", step, m.why)
				}
				return true
			}
		}
		differ = append(differ, step)
		return false
	}
	byName := map[string]Step{}
	for _, s := range want {
		byName[s.Name] = s
	}
	for _, g := range got {
		w, ok := byName[g.Name]
		delete(byName, g.Name)
		if !ok {
			if !allowed(g.Name) {
				fmt.Printf("  %s: not in the fixture: %v\n", g.Name, g.Answer)
			}
			continue
		}
		a, b := string(encode(w.Answer)), string(encode(g.Answer))
		if a == b {
			if verbose {
				fmt.Printf("  %s: same\n", g.Name)
			}
			continue
		}
		if allowed(g.Name) {
			continue
		}
		fmt.Printf("  %s (%s v%d):\n", g.Name, g.API, g.Version)
		la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
		shown := 0
		for i := 0; i < len(la) || i < len(lb); i++ {
			x, y := "", ""
			if i < len(la) {
				x = la[i]
			}
			if i < len(lb) {
				y = lb[i]
			}
			if x != y {
				fmt.Printf("    want %s\n    got  %s\n", strings.TrimSpace(x), strings.TrimSpace(y))
				if shown++; shown == 6 {
					fmt.Println("    ...")
					break
				}
			}
		}
	}
	for _, w := range want {
		if _, left := byName[w.Name]; left && !allowed(w.Name) {
			fmt.Printf("  %s: not asked\n", w.Name)
		}
	}
	return differ, explained
}
