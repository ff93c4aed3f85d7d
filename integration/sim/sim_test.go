package sim

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "run this one schedule of -profile and print its trace")
	profileFlag = flag.String("profile", "", "run only this profile; empty: all, in turns")
	forFlag     = flag.Duration("for", 0, "how long to run random schedules; 0: a fixed number of fixed ones, which any two runs of a commit share")
	fromFlag    = flag.Uint64("from", 0, "seed of the first schedule with -for; 0: drawn")
	stepsFlag   = flag.Int("steps", 0, "cut a schedule to this many steps before it is healed; 0: the profile's")
)

func profiles(t *testing.T) []Profile {
	all := append(Profiles(), Profile{Name: "swarm"})
	if *profileFlag == "" {
		return all
	}
	for _, p := range all {
		if p.Name == *profileFlag {
			return []Profile{p}
		}
	}
	t.Fatalf("no profile %q", *profileFlag)
	return nil
}

// fixedSchedules is how many schedules of each profile run where no time is given.
const fixedSchedules = 50

// TestRandomSchedulesKeepTheInvariants runs schedules of every profile in turns until its time is over. A run in which an
// event class that a profile is made for never happened proves nothing and fails.
func TestRandomSchedulesKeepTheInvariants(t *testing.T) {
	ps := profiles(t)
	if *seedFlag != 0 {
		for _, p := range ps {
			p.cut(*stepsFlag)
			counts := map[string]int{}
			r := watched(*seedFlag, p, counts)
			t.Logf("profile %s, seed %d: %d steps\n%s\n%s", p.Name, *seedFlag, r.Steps, strings.Join(squeeze(r.Trace), "\n"), table(counts))
			if r.Fault != "" {
				t.Errorf("profile %s, seed %d: %s", p.Name, *seedFlag, r.Fault)
			}
		}
		return
	}
	first, most := uint64(1), fixedSchedules*len(ps)
	if *forFlag > 0 {
		if first, most = *fromFlag, math.MaxInt; first == 0 {
			first = rand.Uint64() >> 1
		}
	}
	t.Logf("seeds from %d", first)
	counts := make([]map[string]int, len(ps))
	for i := range counts {
		counts[i] = map[string]int{}
	}
	began, schedules, steps := time.Now(), 0, 0
	for k := uint64(0); schedules < most && (*forFlag == 0 || time.Since(began) < *forFlag || schedules < len(ps)); k++ {
		i := int(k % uint64(len(ps)))
		p, seed := ps[i], first+k
		r := watched(seed, p, counts[i])
		schedules++
		steps += r.Steps + 1
		if r.Fault != "" {
			r, n := shorten(seed, p, r)
			t.Fatalf("%s\nrepeat with: make sim SEED=%d PROFILE=%q STEPS=%d\n%s", r.Fault, seed, p.Name, n, strings.Join(squeeze(r.Trace), "\n"))
		}
	}
	took := time.Since(began)
	t.Logf("%d schedules, %d steps before the heal, %.0f steps a second", schedules, steps, float64(steps)/took.Seconds())
	for i, p := range ps {
		t.Logf("profile %s\n%s", p.Name, table(counts[i]))
		if schedules < 30*len(ps) {
			continue
		}
		for _, class := range p.Expect {
			if counts[i][class] == 0 {
				t.Errorf("profile %s never came to %q", p.Name, class)
			}
		}
	}
}

// scheduleMax is far more than any schedule takes.
const scheduleMax = 30 * time.Second

// watched is Run of what may never end: then the process ends, with the seed and where every goroutine stands.
func watched(seed uint64, p Profile, counts map[string]int) Result {
	t := time.AfterFunc(scheduleMax, func() {
		all := make([]byte, 1<<20)
		fmt.Printf("HANGS after %v: profile %q, seed %d\n%s\n", scheduleMax, p.Name, seed, all[:runtime.Stack(all, true)])
		os.Exit(2)
	})
	defer t.Stop()
	return Run(seed, p, counts)
}

// cut shortens a schedule.
func (p *Profile) cut(steps int) {
	if steps > 0 {
		p.Steps = min(p.Steps, steps)
	}
}

// shorten finds how few steps of a schedule still break something once it is healed.
func shorten(seed uint64, p Profile, broken Result) (Result, int) {
	if p.Name == "swarm" {
		p = Swarm(rand.New(rand.NewPCG(seed, 0x5a)))
		p.Name = "drawn swarm"
	}
	lo, hi, best := 1, broken.Steps+1, broken
	for lo < hi {
		mid := (lo + hi) / 2
		short := p
		short.Steps = mid
		if r := watched(seed, short, map[string]int{}); r.Fault != "" {
			hi, best = mid, r
		} else {
			lo = mid + 1
		}
	}
	return best, hi
}

// squeeze leaves out what repeats in a trace.
func squeeze(trace []string) (out []string) {
	seen := map[string]int{}
	for _, l := range trace {
		if seen[l]++; seen[l] <= 3 {
			out = append(out, l)
		}
	}
	return out
}

func table(counts map[string]int) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "  %-28s %d\n", k, counts[k])
	}
	return b.String()
}

// corpus are schedules that once broke something; each stays.
var corpus = []struct {
	profile string
	seed    uint64
	why     string
}{
	{"disks", 6320666518267827687, "a damaged log that rotted on between its inspection and its repair was never opened again"},
	{"disks", 1935261043352795455, "a rotten offset in a header made a truncation take a committed record"},
	{"log start", 144856005017965, "a log cut to its start kept a batch below it, and took no batch that begins there"},
	{"storms", 246745133680069, "a process that was killed before it opened its logs took the loss of power before it along"},
	{"moves", 23435843828822, "older records stood again below newer ones after a cut that was not durable and the loss of power"},
	{"log start", 10770032449, "a log of which only the start was left could not follow a leader chosen without it"},
	{"disks", 7039096645142956274, "a directory that failed in a repair that was tried again stopped nobody"},
}

func TestScheduleThatOnceBrokeSomethingBreaksNothing(t *testing.T) {
	all := append(Profiles(), Profile{Name: "swarm"})
	for _, c := range corpus {
		i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == c.profile })
		if i < 0 {
			t.Fatalf("no profile %q", c.profile)
		}
		if r := watched(c.seed, all[i], map[string]int{}); r.Fault != "" {
			t.Errorf("profile %s, seed %d (%s): %s", c.profile, c.seed, c.why, r.Fault)
		}
	}
}
