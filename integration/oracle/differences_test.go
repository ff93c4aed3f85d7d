package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
	"cordwood/transport/api"
)

const (
	recordedAnswers = "../testdata/kafka-4.4.0/answers"
	differencesFile = "../../docs/kafka-differences.tsv"
)

// servedInPart are APIs that answer their questions in form only until groups and transactions exist.
var servedInPart = map[string]bool{"FindCoordinator": true, "InitProducerID": true, "Produce": true}

// unbuilt says that an API is not served: no version of it on the listener of clients.
func unbuilt(t *testing.T, name string) bool {
	t.Helper()
	if servedInPart[name] {
		return true
	}
	var req kmsg.Request
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if kmsg.NameForKey(key) == name {
			req = kmsg.RequestForKey(key)
		}
	}
	if req == nil {
		return false
	}
	h := api.New(api.Deps{}, api.Options{})
	for v := range req.MaxVersion() + 1 {
		if _, action := h.Lookup(req.Key(), v, false); action == transport.Serve {
			return false
		}
	}
	return true
}

// unhonoured says that a topic setting is accepted in part only.
func unhonoured(name string) bool {
	s, ok := metadata.LookupSetting(name)
	return ok && (!s.Honoured || name == metadata.SettingCleanupPolicy)
}

func TestEveryDifferenceFromKafkaHasAReasonOfTheThreeKinds(t *testing.T) {
	raw, err := os.ReadFile(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			t.Fatalf("line %d: %d fields, not 3", i+1, len(f))
		}
		kinds[f[0]]++
		kind, what, _ := strings.Cut(f[2], ": ")
		if kind != "better" && kind != "design" && kind != "issue" || what == "" {
			t.Errorf("line %d: the reason %q is none of better, design, issue", i+1, f[2])
		}
		if f[0] == "absent" || f[0] == "extra" {
			continue
		}
		named, _, _ := strings.Cut(what, " ")
		if kind == "issue" && !unhonoured(named) && !unbuilt(t, named) {
			t.Errorf("line %d: %q is neither an API that is not served nor a setting that is not honoured", i+1, named)
		}
	}
	if kinds["absent"] != 1 || kinds["extra"] != 1 {
		t.Errorf("%d lines of absent APIs and %d of extra settings, there is one each", kinds["absent"], kinds["extra"])
	}
}

func TestAbsentAPIsAreNotServed(t *testing.T) {
	absent := readExplained(differencesFile).absent
	h := api.New(api.Deps{}, api.Options{})
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		name := kmsg.NameForKey(key)
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for v := range req.MaxVersion() + 1 {
			_, action := h.Lookup(key, v, false)
			if served := action == transport.Serve; served && absent[strconv.Itoa(int(key))] {
				t.Errorf("%s (%d) v%d is served and stands among the absent", name, key, v)
			}
		}
	}
}

func TestAWholeScenarioIsExplainedOnlyWhereEveryStepAsksAnAPIThatIsNotBuilt(t *testing.T) {
	meant := readExplained(differencesFile).meant
	for _, m := range meant {
		if strings.Trim(m.step, "*") != "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(recordedAnswers, m.scenario+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var steps []Step
		if err := json.Unmarshal(raw, &steps); err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s.API == "" || !unbuilt(t, s.API) || servedInPart[s.API] {
				t.Errorf("%s is explained as a whole, but its step %q asks %s, which is served", m.scenario, s.Name, s.API)
			}
		}
	}
}
