package metadata

import (
	"fmt"
	"strconv"
)

// TopicConfig is what the settings of one topic say, typed: the topic's own values over the cluster's defaults. Only
// honoured settings are here.
type TopicConfig struct {
	SegmentBytes         int64 // bytes; a segment is rolled before it grows beyond
	SegmentMS            int64 // milliseconds
	IndexIntervalBytes   int64 // bytes of log between two index entries
	RetentionMS          int64 // milliseconds; -1 for ever
	RetentionBytes       int64 // bytes of one partition; negative without bound
	MaxMessageBytes      int32 // bytes of one batch
	LogAppendTime        bool  // message.timestamp.type=LogAppendTime
	TimestampBeforeMaxMS int64 // milliseconds that a record's time may lie before the leader's clock
	TimestampAfterMaxMS  int64 // milliseconds that it may lie after it
	MinISR               int32 // min.insync.replicas: the partition record's; 0 without a topic
	FlushMessages        int64 // records between two fsyncs; math.MaxInt64 never by itself
	FlushMS              int64 // milliseconds between two fsyncs; math.MaxInt64 never by itself
	UncleanElection      bool
	FileDeleteDelayMS    int64 // milliseconds between taking a file out of the log and removing it
	CleanupDelete        bool  // cleanup.policy holds delete; without it old segments stay
	Recovery             RecoveryPolicy
	Rule                 CommitRule // commit.rule: the partition records'; during a change the one that is changed to
	Durability           Durability // commit.durability: likewise
	MinAcks              int16      // min.acks as producers number acknowledgements: -1 all, 0 none, else copies
}

// Defaults are the cluster's defaults of topic settings: the built-in ones and what the configuration file overrides.
// Immutable; safe for any goroutine.
type Defaults struct {
	base      TopicConfig
	overrides map[string]string // canonical
}

// NewDefaults checks overrides, given under topic setting names. Errors wrap ErrInvalidConfig and name the setting.
func NewDefaults(overrides map[string]string) (*Defaults, error) {
	d := &Defaults{overrides: make(map[string]string, len(overrides))}
	for i := range settingTable {
		s := &settingTable[i]
		value := s.Default
		if raw, ok := overrides[s.Name]; ok {
			v, err := s.Accept(raw)
			if err != nil {
				return nil, fmt.Errorf("default of topics: %w", err)
			}
			if v != s.Default {
				d.overrides[s.Name] = v
			}
			value = v
		}
		d.base.set(s.Name, value)
	}
	for name := range overrides {
		if _, ok := LookupSetting(name); !ok {
			return nil, fmt.Errorf("default of topics: %w: %q is no setting of topics", ErrInvalidConfig, name)
		}
	}
	if _, given := d.overrides[SettingMinISR]; !given {
		d.base.MinISR = 0
	}
	return d, nil
}

// Override gives the canonical value that the configuration file sets for a setting, if it differs from the built-in
// default.
func (d *Defaults) Override(name string) (string, bool) {
	v, ok := d.overrides[name]
	return v, ok
}

// Effective gives what is in force for a topic: its own settings over the defaults. MinISR, Recovery, Rule and Durability
// are those of the topic's partition records. A value that does not parse, which no command lets in, leaves the default.
func (d *Defaults) Effective(t *Topic) TopicConfig {
	c := d.base
	if t == nil {
		return c
	}
	for name, value := range t.Configs {
		c.set(name, value)
	}
	if len(t.Partitions) > 0 {
		p := t.Partitions[0]
		c.MinISR, c.Recovery = p.MinISR, p.Recovery
		c.Rule, c.Durability = p.Rule.Target(), p.Durability.Target()
	}
	return c
}

// DefaultMinISR is min.insync.replicas where neither topic nor cluster names one: all but a minority of the replicas,
// and 1 where two replicas could not spare one.
func DefaultMinISR(replicas int) int32 {
	if replicas <= 2 {
		return 1
	}
	return int32(replicas/2 + 1)
}

// MinISRFor is min.insync.replicas of a new topic without a value of its own.
func (d *Defaults) MinISRFor(replicas int) int32 {
	if d.base.MinISR > 0 {
		return d.base.MinISR
	}
	return DefaultMinISR(replicas)
}

// set takes a value, in whatever legal form it was given; others leave the field as it is.
func (c *TopicConfig) set(name, raw string) {
	s, ok := LookupSetting(name)
	if !ok || !s.Honoured {
		return
	}
	v, err := s.Parse(raw)
	if err != nil {
		return
	}
	var n int64
	if s.Type == TypeInt || s.Type == TypeLong {
		n, _ = strconv.ParseInt(v, 10, 64)
	}
	switch name {
	case SettingSegmentBytes:
		c.SegmentBytes = n
	case SettingSegmentMS:
		c.SegmentMS = n
	case SettingIndexIntervalBytes:
		c.IndexIntervalBytes = n
	case SettingRetentionMS:
		c.RetentionMS = n
	case SettingRetentionBytes:
		c.RetentionBytes = n
	case SettingMaxMessageBytes:
		c.MaxMessageBytes = int32(n)
	case SettingTimestampType:
		c.LogAppendTime = v == "LogAppendTime"
	case SettingTimestampBeforeMaxMS:
		c.TimestampBeforeMaxMS = n
	case SettingTimestampAfterMaxMS:
		c.TimestampAfterMaxMS = n
	case SettingMinISR:
		c.MinISR = int32(n)
	case SettingFlushMessages:
		c.FlushMessages = n
	case SettingFlushMS:
		c.FlushMS = n
	case SettingUncleanElection:
		c.UncleanElection = v == "true"
	case SettingFileDeleteDelayMS:
		c.FileDeleteDelayMS = n
	case SettingCleanupPolicy:
		c.CleanupDelete = contains(SplitList(v), "delete")
	case SettingRecovery:
		c.Recovery = RecoveryPolicy(v)
	case SettingCommitRule:
		c.Rule = CommitRule(v)
	case SettingCommitDurability:
		c.Durability = Durability(v)
	case SettingMinAcks:
		c.MinAcks, _ = parseAcks(v)
	}
}
