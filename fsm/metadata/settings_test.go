package metadata

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestSettingsStandSortedAndTheirDefaultsAreLegalAndCanonical(t *testing.T) {
	names := make([]string, 0, len(settingTable))
	for _, s := range Settings() {
		names = append(names, s.Name)
		v, err := s.Accept(s.Default)
		if err != nil || v != s.Default {
			t.Errorf("%s: default %q is accepted as %q, %v", s.Name, s.Default, v, err)
		}
		if s.Doc == "" {
			t.Errorf("%s has no documentation", s.Name)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) != 41 {
		t.Errorf("not 41 different names in order: %v", names)
	}
}

func TestSettingValuesAreReadAsKafkaReadsThem(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{SettingRetentionMS, " 5000", "5000"},
		{SettingRetentionMS, "+5", "5"},
		{SettingRetentionMS, "-1", "-1"},
		{SettingRetentionMS, "-2", ""},
		{SettingRetentionMS, "9223372036854775808", ""},
		{SettingRetentionMS, "", ""},
		{SettingRetentionMS, "soon", ""},
		{SettingRetentionBytes, "-2", "-2"},
		{SettingSegmentBytes, "1048575", ""},
		{SettingSegmentBytes, "1048576", "1048576"},
		{SettingSegmentBytes, "2147483648", ""},
		{SettingSegmentMS, "0", ""},
		{SettingMaxMessageBytes, "0", "0"},
		{SettingMaxMessageBytes, "-1", ""},
		{SettingMinISR, "0", ""},
		{SettingMinISR, "3", "3"},
		{SettingTimestampType, "LogAppendTime", "LogAppendTime"},
		{SettingTimestampType, "x", ""},
		{SettingUncleanElection, "TRUE", "true"},
		{SettingUncleanElection, "1", ""},
		{SettingCleanupPolicy, "delete, delete", "delete"},
		{SettingCleanupPolicy, "compact, delete", "compact,delete"},
		{SettingCleanupPolicy, "", ""},
		{SettingCleanupPolicy, "DELETE", "!"},
		{"compression.gzip.level", "0", "!"},
		{"compression.gzip.level", "99", "!"},
		{"min.cleanable.dirty.ratio", "1.5", "!"},
		{"min.cleanable.dirty.ratio", "NaN", "!"},
		{"preallocate", "TRUE", "true"},
		{"leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"},
		{"leader.replication.throttled.replicas", "0-1", "!"},
		{SettingRecovery, "manual", "manual"},
		{SettingRecovery, "never", "!"},
		{SettingCommitRule, " quorum", "quorum"},
		{SettingCommitRule, string(RuleISRToQuorum), "!"},
		{SettingCommitDurability, "disk", "disk"},
		{SettingCommitDurability, string(DurabilityMemoryToDisk), "!"},
		{SettingMinAcks, "all", "all"},
		{SettingMinAcks, "-1", "all"},
		{SettingMinAcks, "2", "2"},
		{SettingMinAcks, "02", "!"},
		{SettingMinAcks, "+2", "!"},
		{SettingMinAcks, "-2", "!"},
		{SettingMinAcks, "32768", "!"},
		{SettingMinAcks, "", "!"},
	} {
		s, ok := LookupSetting(c.name)
		if !ok {
			t.Fatalf("%s is not known", c.name)
		}
		got, err := s.Parse(c.raw)
		refused := c.want == "!" || c.want == "" && c.name != SettingCleanupPolicy
		if refused != (err != nil) || !refused && got != c.want {
			t.Errorf("%s=%q gives %q, %v; want %q", c.name, c.raw, got, err, c.want)
		}
		if err != nil && !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s=%q: %v is no ErrInvalidConfig", c.name, c.raw, err)
		}
	}
}

func TestSettingsThatNothingActsOnAreAcceptedOnlyAtTheirDefault(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		ok        bool
	}{
		{"preallocate", "false", true},
		{"preallocate", "TRUE", false},
		{"compression.type", "gzip", false},
		{"min.cleanable.dirty.ratio", "0.50", true},
		{"min.cleanable.dirty.ratio", "0.6", false},
		{SettingCleanupPolicy, "compact", false},
		{SettingCleanupPolicy, "delete", true},
		{SettingCleanupPolicy, "", true},
		{"no.such.key", "1", false},
		{"", "1", false},
	} {
		if _, err := AcceptSetting(c.name, c.raw); c.ok != (err == nil) {
			t.Errorf("%s=%q: %v", c.name, c.raw, err)
		}
	}
}

func TestTopicSettingsStandOverClusterDefaultsOverBuiltInOnes(t *testing.T) {
	d, err := NewDefaults(map[string]string{SettingRetentionMS: "3600000", SettingSegmentBytes: "2097152", SettingMaxMessageBytes: "1048588"})
	if err != nil {
		t.Fatal(err)
	}
	if _, given := d.Override(SettingMaxMessageBytes); given {
		t.Error("an override that is the default counts as one")
	}
	topic := &Topic{
		Configs:    map[string]string{SettingSegmentBytes: " 4194304", SettingTimestampType: "LogAppendTime", SettingCleanupPolicy: "", SettingMinAcks: "-1"},
		Partitions: []*Partition{{MinISR: 2, Recovery: RecoverManual, Rule: RuleISRToQuorum, Durability: DurabilityMemoryToDisk}},
	}
	want := TopicConfig{
		SegmentBytes: 4194304, SegmentMS: 604800000, IndexIntervalBytes: 4096, RetentionMS: 3600000, RetentionBytes: -1,
		MaxMessageBytes: 1048588, LogAppendTime: true, TimestampBeforeMaxMS: math.MaxInt64, TimestampAfterMaxMS: 3600000,
		MinISR: 2, FlushMessages: math.MaxInt64, FlushMS: math.MaxInt64, FileDeleteDelayMS: 60000, Recovery: RecoverManual,
		Rule: RuleQuorum, Durability: DurabilityDisk, MinAcks: -1,
	}
	if got := d.Effective(topic); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if c := d.Effective(nil); !c.CleanupDelete || c.Recovery != RecoverWaitAll || c.MinISR != 0 || c.Rule != RuleISR || c.Durability != DurabilityMemory || c.MinAcks != 0 {
		t.Errorf("defaults: %+v", c)
	}
	for n, want := range map[int]int32{1: 1, 2: 1, 3: 2, 4: 3, 5: 3} {
		if got := d.MinISRFor(n); got != want {
			t.Errorf("min.insync.replicas of %d replicas is %d, want %d", n, got, want)
		}
	}
	if _, err := NewDefaults(map[string]string{"no.such.key": "1"}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("an unknown default: %v", err)
	}
	if _, err := NewDefaults(map[string]string{SettingRetentionMS: "soon"}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("an illegal default: %v", err)
	}
}

func FuzzSettingValues(f *testing.F) {
	for _, s := range Settings() {
		f.Add(s.Name, s.Default)
	}
	f.Add(SettingCleanupPolicy, "compact, delete,,delete ")
	f.Add("leader.replication.throttled.replicas", "0:1, 2:3")
	f.Add("min.cleanable.dirty.ratio", "1e-3")
	f.Fuzz(func(t *testing.T, name, raw string) {
		s, ok := LookupSetting(name)
		if !ok {
			return
		}
		v, err := s.Parse(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalidConfig) {
				t.Errorf("%s=%q: %v is no ErrInvalidConfig", name, raw, err)
			}
			return
		}
		if again, err := s.Parse(v); err != nil || again != v {
			t.Errorf("%s=%q is %q, which is %q, %v", name, raw, v, again, err)
		}
	})
}
