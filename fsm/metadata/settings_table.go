package metadata

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Names of the settings that this version acts on.
const (
	SettingCleanupPolicy        = "cleanup.policy"
	SettingCommitDurability     = "commit.durability"
	SettingCommitRule           = "commit.rule"
	SettingFileDeleteDelayMS    = "file.delete.delay.ms"
	SettingFlushMessages        = "flush.messages"
	SettingFlushMS              = "flush.ms"
	SettingIndexIntervalBytes   = "index.interval.bytes"
	SettingMaxMessageBytes      = "max.message.bytes"
	SettingMinAcks              = "min.acks"
	SettingMinISR               = "min.insync.replicas"
	SettingRecovery             = "recovery.policy"
	SettingRetentionBytes       = "retention.bytes"
	SettingRetentionMS          = "retention.ms"
	SettingSegmentBytes         = "segment.bytes"
	SettingSegmentMS            = "segment.ms"
	SettingTimestampAfterMaxMS  = "message.timestamp.after.max.ms"
	SettingTimestampBeforeMaxMS = "message.timestamp.before.max.ms"
	SettingTimestampType        = "message.timestamp.type"
	SettingUncleanElection      = "unclean.leader.election.enable"
)

var unbounded = math.Inf(1)

const never = "9223372036854775807"

// settingTable has Kafka's 37 topic settings with their defaults and bounds, and ours, by rising names.
var settingTable = []Setting{
	{Name: SettingCleanupPolicy, Type: TypeList, Default: "delete", Broker: "log.cleanup.policy", Honoured: true, allowed: []string{"compact", "delete"},
		Doc: "What becomes of old segments: delete removes them by time and size, compact keeps the newest record of each key. Both may be named; none keeps everything."},
	{Name: SettingCommitDurability, Type: TypeString, Default: string(DurabilityMemory), Honoured: true,
		allowed: []string{string(DurabilityMemory), string(DurabilityDisk)},
		Doc:     "When a replica's copy of a record counts: memory, once the operating system has it, or disk, once it has been written through. One write-through covers all the appends that wait for it."},
	{Name: SettingCommitRule, Type: TypeString, Default: string(RuleISR), Honoured: true,
		allowed: []string{string(RuleISR), string(RuleQuorum)},
		Doc:     "When a record is committed, hence safe and visible: isr, once every in-sync replica has it and they are at least min.insync.replicas, or quorum, once a majority of the replicas has it (or min.insync.replicas of them where that is more). Quorum leaders are elected by the most complete log of a majority."},
	{Name: "compression.gzip.level", Type: TypeInt, Default: "-1", Broker: "compression.gzip.level", min: -1, max: 9, check: notZero,
		Doc: "Level used where the broker compresses with gzip itself: 1 to 9, or -1 for the codec's own choice."},
	{Name: "compression.lz4.level", Type: TypeInt, Default: "9", Broker: "compression.lz4.level", min: 1, max: 17,
		Doc: "Level used where the broker compresses with lz4 itself, from 1 to 17."},
	{Name: "compression.type", Type: TypeString, Default: "producer", Broker: "compression.type",
		allowed: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
		Doc:     "Codec in which batches are stored. With producer they stay as they came."},
	{Name: "compression.zstd.level", Type: TypeInt, Default: "3", Broker: "compression.zstd.level", min: -131072, max: 22,
		Doc: "Level used where the broker compresses with zstd itself, from -131072 to 22."},
	{Name: "delete.retention.ms", Type: TypeLong, Default: "86400000", Broker: "log.cleaner.delete.retention.ms", min: 0, max: unbounded,
		Doc: "Milliseconds for which a tombstone stays readable in a compacted topic after its key is gone."},
	{Name: "errors.deadletterqueue.group.enable", Type: TypeBool, Default: "false",
		Doc: "Whether share groups may write records they give up on into this topic."},
	{Name: SettingFileDeleteDelayMS, Type: TypeLong, Default: "60000", Broker: "log.segment.delete.delay.ms", Honoured: true, min: 0, max: unbounded,
		Doc: "Milliseconds between taking a segment out of the log and removing its files."},
	{Name: SettingFlushMessages, Type: TypeLong, Default: never, Broker: "log.flush.interval.messages", Honoured: true, min: 1, max: unbounded,
		Doc: "Records after which the log is written through to the disk. Left at its default that is the operating system's matter, and safety comes from the replicas."},
	{Name: SettingFlushMS, Type: TypeLong, Default: never, Broker: "log.flush.interval.ms", Unset: true, Honoured: true, min: 0, max: unbounded,
		Doc: "Milliseconds after which appended records are written through to the disk."},
	{Name: "follower.replication.throttled.replicas", Type: TypeList, Default: "", check: throttled,
		Doc: "Replicas, as partition:broker pairs or *, whose fetching is held to the follower's throttle."},
	{Name: SettingIndexIntervalBytes, Type: TypeInt, Default: "4096", Broker: "log.index.interval.bytes", Honoured: true, min: 0, max: unbounded,
		Doc: "Bytes of log between two entries of the offset index: fewer find records faster, more keep the index small."},
	{Name: "leader.replication.throttled.replicas", Type: TypeList, Default: "", check: throttled,
		Doc: "Replicas, as partition:broker pairs or *, to which the leader sends no faster than its throttle."},
	{Name: "local.retention.bytes", Type: TypeLong, Default: "-2", Broker: "log.local.retention.bytes", min: -2, max: unbounded,
		Doc: "Bytes of a tiered partition kept on the node; -2 follows retention.bytes."},
	{Name: "local.retention.ms", Type: TypeLong, Default: "-2", Broker: "log.local.retention.ms", min: -2, max: unbounded,
		Doc: "Milliseconds for which segments of a tiered partition are kept on the node; -2 follows retention.ms."},
	{Name: "max.compaction.lag.ms", Type: TypeLong, Default: never, Broker: "log.cleaner.max.compaction.lag.ms", min: 1, max: unbounded,
		Doc: "Milliseconds after which a record of a compacted topic must have been seen by the cleaner."},
	{Name: "max.decompressed.message.bytes", Type: TypeInt, Default: "2147483639", Broker: "max.decompressed.message.bytes", min: 1, max: unbounded,
		Doc: "Bytes to which one compressed batch may unfold."},
	{Name: SettingMaxMessageBytes, Type: TypeInt, Default: "1048588", Broker: "message.max.bytes", Honoured: true, min: 0, max: unbounded,
		Doc: "Bytes of the largest batch that is taken, as it arrives (compressed if the producer compresses)."},
	{Name: SettingTimestampAfterMaxMS, Type: TypeLong, Default: "3600000", Broker: "log.message.timestamp.after.max.ms", Honoured: true, min: 0, max: unbounded,
		Doc: "Milliseconds that a record's time may lie ahead of the leader's clock. Not looked at with LogAppendTime."},
	{Name: SettingTimestampBeforeMaxMS, Type: TypeLong, Default: never, Broker: "log.message.timestamp.before.max.ms", Honoured: true, min: 0, max: unbounded,
		Doc: "Milliseconds that a record's time may lie behind the leader's clock. Not looked at with LogAppendTime."},
	{Name: SettingTimestampType, Type: TypeString, Default: "CreateTime", Broker: "log.message.timestamp.type", Honoured: true, allowed: []string{"CreateTime", "LogAppendTime"},
		Doc: "Whose time records carry: CreateTime is the producer's, LogAppendTime the leader's at the append."},
	{Name: SettingMinAcks, Type: TypeString, Default: "0", Honoured: true, other: map[string]string{"-1": acksAll}, check: acksCount,
		Doc: "The weakest acknowledgement that the topic gives: 0, 1, a number of copies, or all for a commit. The stronger of this and what the producer asks for is waited for; a producer's all is never weakened."},
	{Name: "min.cleanable.dirty.ratio", Type: TypeDouble, Default: "0.5", Broker: "log.cleaner.min.cleanable.ratio", min: 0, max: 1,
		Doc: "Share of a compacted log that must be new since the last pass before the cleaner takes it up."},
	{Name: "min.compaction.lag.ms", Type: TypeLong, Default: "0", Broker: "log.cleaner.min.compaction.lag.ms", min: 0, max: unbounded,
		Doc: "Milliseconds for which the cleaner leaves a new record alone."},
	{Name: SettingMinISR, Type: TypeInt, Default: "1", Broker: "min.insync.replicas", Honoured: true, min: 1, max: unbounded,
		Doc: "In-sync replicas without which a produce request with acks=all is refused, and the size the in-sync set needs for a record to commit."},
	{Name: "preallocate", Type: TypeBool, Default: "false", Broker: "log.preallocate",
		Doc: "Whether a new segment takes its full size on the disk at once."},
	{Name: SettingRecovery, Type: TypeString, Default: string(RecoverWaitAll), Honoured: true,
		allowed: []string{string(RecoverWaitAll), string(RecoverManual), string(RecoverProactive)},
		Doc:     "How a partition is led again when no replica is known to hold every committed record: wait-all takes the longest log once every replica has reported, manual waits for an operator, proactive does not wait for replicas that stay away."},
	{Name: "remote.copy.lag.bytes", Type: TypeLong, Default: "-1", Broker: "log.remote.copy.lag.bytes", min: -2, max: unbounded,
		Doc: "Bytes by which copying to tiered storage may fall behind; -1 sets no bound."},
	{Name: "remote.copy.lag.ms", Type: TypeLong, Default: "0", Broker: "log.remote.copy.lag.ms", min: -2, max: unbounded,
		Doc: "Milliseconds by which copying to tiered storage may fall behind; 0 sets no bound."},
	{Name: "remote.log.copy.disable", Type: TypeBool, Default: "false",
		Doc: "Whether a tiered topic stops copying new segments while old ones stay readable."},
	{Name: "remote.log.delete.on.disable", Type: TypeBool, Default: "false",
		Doc: "Whether switching tiered storage off also removes what was copied."},
	{Name: "remote.storage.enable", Type: TypeBool, Default: "false",
		Doc: "Whether closed segments are copied to tiered storage."},
	{Name: SettingRetentionBytes, Type: TypeLong, Default: "-1", Broker: "log.retention.bytes", Honoured: true, min: math.Inf(-1), max: unbounded,
		Doc: "Bytes to which a partition may grow before its oldest segments go; negative sets no bound. It counts for each partition."},
	{Name: SettingRetentionMS, Type: TypeLong, Default: "604800000", Broker: "log.retention.ms", Unset: true, Honoured: true, min: -1, max: unbounded,
		Doc: "Milliseconds for which a segment is kept after its newest record; -1 keeps it for ever."},
	{Name: SettingSegmentBytes, Type: TypeInt, Default: "1073741824", Broker: "log.segment.bytes", Honoured: true, min: 1 << 20, max: unbounded,
		Doc: "Bytes to which one segment file grows. Retention and compaction work on whole segments."},
	{Name: "segment.index.bytes", Type: TypeInt, Default: "10485760", Broker: "log.index.size.max.bytes", min: 4, max: unbounded,
		Doc: "Bytes to which the offset index of a segment may grow."},
	{Name: "segment.jitter.ms", Type: TypeLong, Default: "0", Broker: "log.roll.jitter.ms", Unset: true, min: 0, max: unbounded,
		Doc: "Milliseconds at most by which a roll by time comes earlier, by chance, so that partitions do not roll together."},
	{Name: SettingSegmentMS, Type: TypeLong, Default: "604800000", Broker: "log.roll.ms", Unset: true, Honoured: true, min: 1, max: unbounded,
		Doc: "Milliseconds after which a segment is closed though it is not full, so that retention can take it."},
	{Name: SettingUncleanElection, Type: TypeBool, Default: "false", Broker: "unclean.leader.election.enable", Honoured: true,
		Doc: "Whether a replica that may lack committed records is elected when no other can lead. What goes is named in an event."},
}

var settingsByName = func() map[string]*Setting {
	m := make(map[string]*Setting, len(settingTable))
	for i := range settingTable {
		m[settingTable[i].Name] = &settingTable[i]
	}
	return m
}()

// acksAll is the value of min.acks that stands for a commit.
const acksAll = "all"

// acksCount checks min.acks: all, or a number of copies without sign or leading zeros.
func acksCount(v string) error {
	if _, ok := parseAcks(v); !ok {
		return errors.New("must be all, or a number of copies from 0 to 32767")
	}
	return nil
}

// parseAcks reads a canonical value of min.acks as producers number it: -1 is all.
func parseAcks(v string) (int16, bool) {
	if v == acksAll {
		return -1, true
	}
	n, err := strconv.ParseInt(v, 10, 16)
	return int16(n), err == nil && n >= 0 && v == strconv.FormatInt(n, 10)
}

// minAcks is the weakest acknowledgement that a topic's own settings ask for: -1 all, 0 none or not set.
func minAcks(configs map[string]string) int16 {
	s, _ := LookupSetting(SettingMinAcks)
	v, err := s.Parse(configs[SettingMinAcks])
	if err != nil {
		return 0
	}
	n, _ := parseAcks(v)
	return n
}

func notZero(v string) error {
	if v == "0" {
		return errors.New("must be -1 or from 1 to 9")
	}
	return nil
}

// throttled checks partition:broker pairs.
func throttled(v string) error {
	if v == "" || v == "*" || v == "none" {
		return nil
	}
	for _, e := range SplitList(v) {
		p, b, ok := strings.Cut(e, ":")
		if !ok || !digits(p) || !digits(b) {
			return errors.New("must be *, none or pairs partition:broker")
		}
	}
	return nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
