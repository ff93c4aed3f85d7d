//go:build mutants

package sim

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cordwood/fsm/mutant"
)

var (
	mutantFlag = flag.String("mutant", "", "drop this check")
	budgetFlag = flag.Duration("budget", time.Minute, "how long random schedules may look for one mutant")
	onlyFlag   = flag.String("mutants", "", "look for these alone, separated by commas")
)

// inStructure are checks that cannot be dropped: the code has no road on which they could fail.
var inStructure = map[string]string{
	"deleteOnReplay": "a node acts once, on the image at its registration: no older record is ever acted on",
}

// atLeast is how many have to be found, in all and by random schedules.
const atLeast, atLeastRandom = 43, 20

func TestMain(m *testing.M) {
	flag.Parse()
	if !mutant.Set(*mutantFlag) {
		fmt.Fprintf(os.Stderr, "no mutant %q\n", *mutantFlag)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// TestTheSimulationFindsADroppedCheck looks for the mutant that is set, by random schedules of all profiles in turns.
func TestTheSimulationFindsADroppedCheck(t *testing.T) {
	if *mutantFlag == "" {
		t.Skip("run by TestEveryDroppedCheckIsFound with -mutant")
	}
	ps := append(Profiles(), Profile{Name: "swarm"})
	first, began := rand.Uint64()>>1, time.Now()
	for k := uint64(0); time.Since(began) < *budgetFlag; k++ {
		p := ps[k%uint64(len(ps))]
		if r := watched(first+k, p, map[string]int{}); r.Fault != "" {
			mutant.Set("")
			if sound := watched(first+k, p, map[string]int{}); sound.Fault != "" {
				t.Fatalf("breaks without the mutant too: profile %q, seed %d: %s", p.Name, first+k, sound.Fault)
			}
			fmt.Printf("FOUND by profile %q, seed %d, schedule %d, %s: %s\n", p.Name, first+k, k, time.Since(began).Round(10*time.Millisecond), firstLine(string(r.Fault)))
			return
		}
	}
	t.Fatalf("not found in %s", *budgetFlag)
}

func firstLine(s string) string { line, _, _ := strings.Cut(s, "\n"); return line }

// found is how one mutant was found.
type found struct {
	name   string
	random string // what found it; empty: nothing did
	tests  []string
}

// TestEveryDroppedCheckIsFound is the simulation's own test: each check that is dropped from the real code is found by a
// random schedule or by a directed test.
func TestEveryDroppedCheckIsFound(t *testing.T) {
	if *mutantFlag != "" {
		t.Skip("one mutant is set")
	}
	names := mutant.Names()
	if *onlyFlag != "" {
		names = strings.Split(*onlyFlag, ",")
	}
	results := make([]found, len(names))
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				results[i] = look(t, names[i])
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()

	random, all := 0, 0
	for _, r := range results {
		how := "NOT FOUND"
		switch {
		case r.random != "":
			random++
			how = r.random
		case len(r.tests) > 0:
			how = strings.Join(r.tests, ", ")
		}
		if r.random != "" || len(r.tests) > 0 {
			all++
		}
		fmt.Printf("%-20s %s\n", r.name, how)
	}
	for name, why := range inStructure {
		fmt.Printf("%-20s cannot be dropped: %s\n", name, why)
	}
	fmt.Printf("%d of %d found, %d by random schedules\n", all, len(names)+len(inStructure), random)
	if *onlyFlag == "" && (all < atLeast || random < atLeastRandom) {
		t.Errorf("at least %d have to be found, %d by random schedules", atLeast, atLeastRandom)
	}
}

var failedTest = regexp.MustCompile(`--- FAIL: (TestS\d\d\w*)`)

// look runs a mutant in processes of its own: the directed tests, which are quick, and random schedules.
func look(t *testing.T, name string) found {
	f := found{name: name}
	out := child(t, time.Minute, "-test.run", `^TestS\d`, "-mutant", name)
	for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
		if !slices.Contains(f.tests, m[1]) {
			f.tests = append(f.tests, m[1])
		}
	}
	out = child(t, *budgetFlag+time.Minute, "-test.run", "^TestTheSimulationFindsADroppedCheck$", "-mutant", name, "-budget", budgetFlag.String())
	if _, rest, ok := strings.Cut(out, "breaks without the mutant too: "); ok {
		t.Errorf("while it looked for %s a schedule broke that no check was dropped in: %s", name, firstLine(rest))
	}
	if _, rest, ok := strings.Cut(out, "HANGS "); ok {
		t.Errorf("while it looked for %s a schedule hung: %s", name, rest)
	}
	if _, rest, ok := strings.Cut(out, "FOUND "); ok {
		f.random = firstLine(rest)
	}
	return f
}

// child runs this test binary with other arguments and gives what it printed, whatever became of it.
func child(t *testing.T, limit time.Duration, args ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var out bytes.Buffer
	c := exec.CommandContext(ctx, os.Args[0], append(args, "-test.timeout", "0")...)
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil && out.Len() == 0 {
		t.Errorf("%v: %v", args, err)
	}
	return out.String()
}
