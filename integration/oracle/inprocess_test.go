package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
)

// served are the scenarios of the APIs that are built.
var served = []string{"01-", "02-", "03-", "04-", "05-", "06-", "07-", "08-", "09-", "13-", "14-", "15-"}

func TestAnswersAreThoseOfARecordedKafka(t *testing.T) {
	address := solo(t)
	var names []string
	for n := range scenarios {
		for _, p := range served {
			if strings.HasPrefix(n, p) {
				names = append(names, n)
			}
		}
	}
	sort.Strings(names)
	for _, n := range names {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			known := readExplained(differencesFile)
			raw, err := os.ReadFile(filepath.Join(recordedAnswers, n+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want []Step
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				want[i].Answer = without(want[i].Answer, known.absent)
			}
			r := newRun(address, n)
			r.extra = known.extra
			r.wait = 2 * time.Second // for what does not come: nothing here takes longer
			r.play(scenarios[n])
			if d, _ := diff(n, want, r.steps, known.meant, false); d > 0 {
				t.Errorf("%d of %d steps differ; run with -v to see them", d, len(r.steps))
			}
			for _, m := range known.meant {
				if m.scenario == n && !m.used {
					t.Errorf("the line on %q explains nothing", m.step)
				}
			}
		})
	}
}
