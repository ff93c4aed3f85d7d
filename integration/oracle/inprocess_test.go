package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"cordwood/transport"
	"cordwood/transport/api/apitest"
)

// withoutLogs are the scenarios whose answers come from the metadata alone.
var withoutLogs = []string{"03-", "08-", "09-", "13-cluster", "13-topic-partitions"}

func TestAnswersFromTheMetadataAreThoseOfARecordedKafka(t *testing.T) {
	c := apitest.New(t, 1)
	s, err := transport.NewServer(transport.Options{
		Listeners: []transport.Listener{{Name: "external", Bind: "127.0.0.1:0"}}, Table: c.Handlers, Handler: c.Handlers,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	meant, absent := readExplained(differencesFile)
	var names []string
	for n := range scenarios {
		for _, p := range withoutLogs {
			if strings.HasPrefix(n, p) {
				names = append(names, n)
			}
		}
	}
	sort.Strings(names)
	for _, n := range names {
		t.Run(n, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(recordedAnswers, n+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want []Step
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				want[i].Answer = without(want[i].Answer, absent)
			}
			r := newRun(s.Addr("external").String(), n)
			r.wait = time.Second // for what does not come: nothing here takes time
			r.play(scenarios[n])
			if d, _ := diff(n, want, r.steps, meant, false); d > 0 {
				t.Errorf("%d of %d steps differ; run with -v to see them", d, len(r.steps))
			}
		})
	}
}
