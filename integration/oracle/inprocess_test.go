package main

import (
	"testing"
	"time"
)

// served are the scenarios of the APIs that are built.
const served = "01-,02-,03-,04-,05-,06-,07-,08-,09-,13-,14-,15-"

func TestAnswersAreThoseOfARecordedKafka(t *testing.T) {
	address := solo(t)
	for _, n := range chosen(served) {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			known := readExplained(differencesFile)
			want, err := recorded(recordedAnswers, n, known)
			if err != nil {
				t.Fatal(err)
			}
			r := newRun(address, n)
			r.extra = known.extra
			r.wait = 5 * time.Second // for what never comes, such as coordinators; nothing here takes as long
			r.play(scenarios[n])
			if d, _ := diff(n, want, r.steps, known.meant, false); len(d) > 0 {
				t.Errorf("%d of %d steps differ: %q; run with -v to see how", len(d), len(r.steps), d)
			}
			for _, m := range known.meant {
				if m.scenario == n && !m.used {
					t.Errorf("the line on %q explains nothing", m.step)
				}
			}
		})
	}
}
