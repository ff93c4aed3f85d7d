package configs

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryFieldHasAKeyADocAndADefaultThatParses(t *testing.T) {
	for _, k := range Keys() {
		if strings.HasSuffix(k.Name, ".") || k.Name == "" {
			t.Errorf("field without a key tag: %+v", k)
		}
		if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s: no doc, or one that is no sentence: %q", k.Name, k.Doc)
		}
		if err := k.check(k.Default); err != nil {
			t.Errorf("%s: default: %v", k.Name, err)
		}
		if k.Unit == "" && k.kind.Kind() != reflect.Bool && k.kind.Kind() != reflect.String {
			t.Errorf("%s: no unit", k.Name)
		}
	}
	for _, s := range Sections() {
		if s.Doc == "" {
			t.Errorf("section %s has no doc", s.Name)
		}
	}
}

func TestTheSampleHoldsEveryKeyAndLoadsToTheDefaults(t *testing.T) {
	cfg, src, err := Load("cordwood.yaml", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := Defaults()
	want.Cluster.Join = []string{}
	if d := cmp.Diff(want, cfg); d != "" {
		t.Errorf("sample differs from the defaults (-default +sample):\n%s", d)
	}
	for _, s := range src.All() {
		if s.Source != FromFile {
			t.Errorf("the sample lacks %s", s.Key.Name)
		}
	}
	if c := src.Changed(); len(c) != 0 {
		t.Errorf("changed: %v", c)
	}
}

func TestTheDockerNodesLoadAndDifferInTheirNames(t *testing.T) {
	for i, name := range []string{"n1", "n2", "n3"} {
		cfg, _, err := Load(filepath.Join("docker", name+".yaml"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		external := "localhost:" + string(rune('1'+i)) + "9092"
		got := []string{cfg.Listeners["internal"].Advertise, cfg.Listeners["external"].Advertise, cfg.Raft.Advertise, cfg.Gossip.Advertise, cfg.HTTP.Bind, cfg.Node.DataDir}
		want := []string{name + ":9092", external, name + ":9093", name + ":7946", "0.0.0.0:8080", "/var/lib/cordwood"}
		if d := cmp.Diff(want, got); d != "" || cfg.Node.ID != int32(i+1) {
			t.Errorf("%s: id %d, %s", name, cfg.Node.ID, d)
		}
	}
}

// load writes text to a file and loads it; it gives the faults with the file named f.
func load(t *testing.T, text string, flags map[string]string) (*Config, *Sources, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, src, err := Load(path, flags, os.Environ())
	if err == nil {
		return cfg, src, ""
	}
	var faults Faults
	if !errors.As(err, &faults) || !errors.Is(err, ErrInvalid) {
		t.Fatalf("not Faults: %v", err)
	}
	return nil, nil, strings.ReplaceAll(err.Error(), path, "f")
}

func TestFaultsOfTheFileAllComeAtOnceWithTheirPlaces(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"unknown keys and units", "node:\n  id: one\n  di: 3\nlisteners:\n  internal:\n    advertize: n1:9092\nstorage:\n  segment_bytes: 1gb\n  retention_ms: 90\n",
			`f:2:7: node.id: "one" is not a whole number
f:3:3: unknown key "di" (did you mean "id"?)
f:6:5: unknown key "advertize" (did you mean "advertise"?)
f:8:18: storage.segment_bytes: "1gb" is not a size; write 1GiB or 1073741824
f:9:17: storage.retention_ms: "90" is not a duration; write the unit as well: 90ms, 90s`},
		{"duplicates", "dev_mode: false\nlog: { level: info }\ndev_mode: true\nlog: { level: warn }\n",
			"f:3:1: key \"dev_mode\" is given twice, first in line 1\nf:4:1: key \"log\" is given twice, first in line 2"},
		{"shapes", "node: 3\ncluster:\n  join: n1:7946\n  name: [a]\nraft:\n  bind:\nlog:\n  level: {}\n",
			`f:1:7: node must hold keys
f:3:9: cluster.join must be a list: [n1:7946]
f:4:9: cluster.name must be one value
f:6:8: raft.bind has no value
f:8:10: log.level must be one value`},
		{"a listener's name", "listeners:\n  Public: { bind: \"0.0.0.0:1\" }\n", `f:2:3: "Public" is not a listener's name: write small letters, digits, - and _, a letter first`},
		{"not yaml", "node: {\n", "f:1:1: not YAML: did not find expected node content"},
		{"a list", "- node\n", "f:1:1: a configuration must hold keys"},
		{"two documents", "dev_mode: true\n---\ndev_mode: false\n", "f:2:1: a second document: a configuration is one document"},
		{"ranges", "node: { id: 99999999999 }\nraft: { snapshot_threshold: -1 }\ntopics: { auto_create: yes }\n",
			"f:1:13: node.id: \"99999999999\" is out of range\nf:2:29: raft.snapshot_threshold: \"-1\" is out of range\nf:3:24: topics.auto_create: \"yes\" is neither true nor false"},
		{"-1 only where it means something", "storage: { segment_bytes: -1, retention_bytes: -1, retention_ms: -1, flush_ms: -1 }\n",
			"f:1:27: storage.segment_bytes: \"-1\" is not a size; write 1GiB or 1073741824\nf:1:80: storage.flush_ms: \"-1\" is not a duration; write the unit as well: -1ms, -1s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, got := load(t, c.text, nil)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRulesPlaceTheirFaultsAtTheValue(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"advertised addresses nobody can dial", `
listeners:
  internal: { bind: "0.0.0.0:9092", advertise: "0.0.0.0:9092" }
  external: { bind: "[::]:19092", advertise: "[::]:19092" }
raft: { advertise: ":9093" }
gossip: { advertise: "n1:0" }
`, `f:3:48: listeners.internal.advertise: "0.0.0.0:9092" cannot be dialled: it means every address of this machine; write a name or address that others dial
f:4:46: listeners.external.advertise: "[::]:19092" cannot be dialled: it means every address of this machine; write a name or address that others dial
f:5:20: raft.advertise: ":9093" has no host; write the name or address that others dial
f:6:22: gossip.advertise: "n1:0" has port 0; nobody could know which port it is`},
		{"ipv6 without brackets", "raft: { advertise: \"::1:9093\" }\n", `f:1:20: raft.advertise: "::1:9093" is not host:port; an IPv6 address stands in brackets, as in [::1]:9092`},
		{"a listener without an address to tell", "listeners: { public: { bind: \"0.0.0.0:9092\" } }\ninter_broker_listener: public\n", `listeners.public.advertise: "" is empty; write host:port`},
		{"an inter-broker listener that is none", "inter_broker_listener: private\n", `f:1:24: inter_broker_listener: "private" is none of the listeners: internal, external`},
		{"one port twice", "http: { bind: \"127.0.0.1:9092\" }\n", `f:1:15: http.bind: "127.0.0.1:9092" is the address of listeners.internal.bind as well`},
		{"a moved port whose advertised address stayed", "inter_broker_listener: external\nlisteners: { external: { bind: \"0.0.0.0:5555\" } }\n", `listeners.external.advertise: is still localhost:19092, but listeners.external.bind has port 5555; say which address others shall dial`},
		{"join without an id, and addresses of this machine alone", "cluster: { join: [n1:7946, n2:7946] }\n",
			`node.id: must be given: cluster.join names other nodes, and each needs an id of its own
listeners.internal.advertise: "localhost:9092" means the dialling machine itself, but cluster.join names n2:7946; write an address of this node that the others can dial
raft.advertise: "localhost:9093" means the dialling machine itself, but cluster.join names n2:7946; write an address of this node that the others can dial
gossip.advertise: "localhost:7946" means the dialling machine itself, but cluster.join names n2:7946; write an address of this node that the others can dial`},
		{"join addresses", "node: { id: 1 }\ncluster: { join: [localhost, \"localhost:1\", \"localhost:1\", \"0.0.0.0:7946\"] }\n",
			`f:2:18: cluster.join: "localhost" is not host:port
f:2:18: cluster.join: "localhost:1" is named twice
f:2:18: cluster.join: "0.0.0.0:7946" cannot be dialled: it means every address of this machine; write a name or address that others dial`},
		{"times that do not fit", "cluster: { session_timeout: 600ms }\nraft: { election_timeout: 100ms, voters: 4 }\nreplication: { lag_time_max: 500ms }\n",
			`f:1:29: cluster.session_timeout: 600ms is less than two heartbeat intervals (500ms each): a single lost heartbeat would fence the node
f:2:27: raft.election_timeout: 100ms is less than raft.heartbeat_timeout (500ms)
f:2:42: raft.voters: 4: write 1, 3, 5, 7 or 9; an even number survives no more failures than the odd one below it
f:3:30: replication.lag_time_max: 500ms is less than twice replication.fetch_wait_max (500ms): a follower that waits would look slow`},
		{"sizes that do not fit", "limits: { request_max_bytes: 1MiB, inflight_bytes: 4KiB }\n",
			`f:1:30: limits.request_max_bytes: 1MiB does not hold one batch of topics.max_message_bytes (1048588)
f:1:52: limits.inflight_bytes: 4KiB does not hold one request of limits.request_max_bytes (1MiB)`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, got := load(t, c.text, nil)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFlagsStandOverEnvironmentOverFile(t *testing.T) {
	t.Setenv("CORDWOOD_LOG_LEVEL", "warn")
	t.Setenv("CORDWOOD_LOG_FORMAT", "json")
	t.Setenv("CORDWOOD_LISTENERS_EXTERNAL_ADVERTISE", "[::1]:19092")
	t.Setenv("CORDWOOD_CLUSTER_JOIN", "127.0.0.1:1, 127.0.0.1:2")
	t.Setenv("CORDWOOD_NODE_RACK", "")
	t.Setenv("CORDWOOD_BROKERS", "elsewhere:1")
	cfg, src, faults := load(t, "log: { level: debug, format: text }\nnode: { id: 7, rack: r1 }\nstorage: { retention_bytes: -1, segment_bytes: 2048, flush_ms: 1d12h }\n", map[string]string{"log.level": "error"})
	if faults != "" {
		t.Fatal(faults)
	}
	if cfg.Log.Level != "error" || cfg.Log.Format != "json" || cfg.Node.ID != 7 || cfg.Node.Rack != "" {
		t.Errorf("%+v %+v", cfg.Log, cfg.Node)
	}
	if got := cfg.Listeners["external"]; got != (Listener{Bind: "0.0.0.0:19092", Advertise: "[::1]:19092"}) {
		t.Errorf("external: %+v", got)
	}
	if d := cmp.Diff([]string{"127.0.0.1:1", "127.0.0.1:2"}, cfg.Cluster.Join); d != "" {
		t.Error(d)
	}
	if cfg.Storage.RetentionBytes != -1 || cfg.Storage.SegmentBytes != 2048 || cfg.Storage.FlushMS.String() != "36h" {
		t.Errorf("%+v", cfg.Storage)
	}
	for key, want := range map[string]Setting{
		"log.level":                   {Value: "error", Source: FromFlag, Where: "flag log.level"},
		"log.format":                  {Value: "json", Source: FromEnvironment, Where: "CORDWOOD_LOG_FORMAT"},
		"node.id":                     {Value: "7", Source: FromFile, Where: src.File() + ":2:13"},
		"cluster.join":                {Value: "127.0.0.1:1,127.0.0.1:2", Source: FromEnvironment, Where: "CORDWOOD_CLUSTER_JOIN"},
		"raft.voters":                 {Value: "3", Source: FromDefault},
		"storage.segment_bytes":       {Value: "2KiB", Source: FromFile, Where: src.File() + ":3:48"},
		"listeners.external.bind":     {Value: "0.0.0.0:19092", Source: FromDefault},
		"storage.retention_ms":        {Value: "7d", Source: FromDefault},
		"replication.fetch_max_bytes": {Value: "10MiB", Source: FromDefault},
	} {
		got := src.Of(key)
		got.Key = Key{}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", key, got, want)
		}
	}
}

func TestUnknownVariablesAndFlagsAreFaults(t *testing.T) {
	t.Setenv("CORDWOOD_LOG_LEVELL", "warn")
	t.Setenv("CORDWOOD_STORAGE_SEGMENT_BYTES", "5 apples")
	t.Setenv("CORDWOOD_PROFILE", "p")
	_, _, got := load(t, "", map[string]string{"node.identity": "3", "dev_mode": "maybe"})
	want := `environment: unknown variable CORDWOOD_LOG_LEVELL (did you mean "CORDWOOD_LOG_LEVEL"?)
CORDWOOD_STORAGE_SEGMENT_BYTES: "5 apples" is not a size; write 1GiB or 1073741824
flag dev_mode: "maybe" is neither true nor false
flags: unknown key "node.identity"`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, _, err := Load("", nil, []string{"CORDWOOD_LOG_LEVEL=another process's"}); err == nil {
		t.Error("an environment that is not this process's was taken")
	}
	if _, _, err := Load(filepath.Join(t.TempDir(), "none"), nil, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

func TestUnitsReadWhatTheyWrite(t *testing.T) {
	for in, want := range map[string]string{"500ms": "500ms", "7d": "7d", "1d12h": "36h", "2m": "2m", "0s": "0s", "90s": "1m30s", "24h": "1d", "1h30m": "1h30m"} {
		d, err := ParseDuration(in)
		if err != nil || d.String() != want {
			t.Errorf("%s: %s %v", in, d, err)
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%s does not read back: %v", d, err)
		}
	}
	for _, bad := range []string{"", "5", "-5s", "d", "999999999999d", "1 day", "106751d24h", "1.5d"} {
		if d, err := ParseDuration(bad); err == nil {
			t.Errorf("%q was taken as %s", bad, d)
		}
	}
	for in, want := range map[string]string{"1GiB": "1GiB", "1024": "1KiB", "1000": "1000", "0": "0", "1536MiB": "1536MiB", "512B": "512"} {
		b, err := ParseByteSize(in)
		if err != nil || b.String() != want {
			t.Errorf("%s: %s %v", in, b, err)
		}
	}
	for _, bad := range []string{"", "1GB", "1gib", "-1", "1.5GiB", "99999999999TiB", "GiB", "9223372036854775808"} {
		if b, err := ParseByteSize(bad); err == nil {
			t.Errorf("%q was taken as %s", bad, b)
		}
	}
}
