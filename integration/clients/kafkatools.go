package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// kafkaTools runs the tools that come with Apache Kafka, by the script that knows where their jars are.
type kafkaTools struct{ script string }

func (k kafkaTools) run(ctx context.Context, stdin io.Reader, class string, args ...string) (string, error) {
	if k.script == "" {
		return "", absent{"Kafka's tools"}
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", absent{"java"}
	}
	return run(ctx, stdin, k.script, append([]string{"tool", "org.apache.kafka.tools." + class}, args...)...)
}

// console is the pair of console producer and console consumer: Kafka's own Java clients.
type console struct{ kafkaTools }

func (console) Name() string   { return "Java console tools" }
func (console) Traits() Traits { return Traits{Codecs: Codecs} }

func (c console) Version(ctx context.Context) (string, error) {
	out, err := c.run(ctx, nil, "TopicCommand", "--version")
	version, _, _ := strings.Cut(strings.TrimSpace(out), " ")
	return version, err
}

func (c console) Produce(ctx context.Context, j Job) error {
	in := lines(j, func(r Record) string {
		return fmt.Sprintf("%s:%s,%s:%s\t%s\t%s", headerClient, r.Headers[headerClient], headerNumber, r.Headers[headerNumber], r.Key, r.Value)
	})
	_, err := c.run(ctx, in, "ConsoleProducer", "--bootstrap-server", strings.Join(j.Seeds, ","), "--topic", j.Topic,
		"--compression-codec", j.Codec, "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
	return err
}

func (c console) Consume(ctx context.Context, j Job) ([]Record, error) {
	return everyPartition(j, func(p int, end int64) ([]Record, error) {
		args := []string{"--bootstrap-server", strings.Join(j.Seeds, ","), "--topic", j.Topic, "--partition", strconv.Itoa(p),
			"--offset", "earliest", "--max-messages", strconv.FormatInt(end, 10), "--timeout-ms", strconv.FormatInt((30 * time.Second).Milliseconds(), 10)}
		for _, field := range []string{"partition", "offset", "headers", "key"} {
			args = append(args, "--formatter-property", "print."+field+"=true")
		}
		out, err := c.run(ctx, nil, "consumer.ConsoleConsumer", args...)
		if err != nil {
			return nil, err
		}
		return parseConsole(out)
	})
}

var consoleLine = regexp.MustCompile(`(?m)^Partition:(\d+)\tOffset:(\d+)\t([^\t\n]*)\t([^\t\n]*)\t([^\t\n]*)$`)

// parseConsole reads what the console consumer prints. Its log goes to the same place, so that other lines pass; records
// that do not come out are found by counting.
func parseConsole(out string) ([]Record, error) {
	var got []Record
	for _, m := range consoleLine.FindAllStringSubmatch(out, -1) {
		partition, err := strconv.ParseInt(m[1], 10, 32)
		if err != nil {
			return got, err
		}
		offset, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return got, err
		}
		got = append(got, Record{Partition: int32(partition), Offset: offset, Headers: parseHeaders(m[3], ":"), Key: m[4], Value: m[5]})
	}
	return got, nil
}

// ToolRow is what came out for one use of one of Kafka's tools.
type ToolRow struct {
	Tool, Did string
	Fault     error
}

// use is one call of a tool and what it must print.
type use struct {
	tool, did, class string
	args             []string
	want             []string // regular expressions that must match
	never            string   // one that must not; empty for none
	also             func(out string) error
}

const (
	toolTopic   = "kafka-tools"
	toolRecords = 10_000
)

// uses is the life of one topic, in order: each step rests on those before it.
func uses(deleteFile string) []use {
	topic := []string{"--topic", toolTopic}
	entity := []string{"--entity-type", "topics", "--entity-name", toolTopic}
	return []use{
		{tool: "kafka-topics", did: "--create, with a setting", class: "TopicCommand",
			args: append(topic, "--create", "--partitions", "3", "--replication-factor", "3", "--config", "retention.ms=86400000"),
			want: []string{`Created topic ` + toolTopic}},
		{tool: "kafka-topics", did: "--list", class: "TopicCommand", args: []string{"--list"}, want: []string{`(?m)^` + toolTopic + `$`}},
		{tool: "kafka-topics", did: "--describe", class: "TopicCommand", args: append(topic, "--describe"), want: []string{
			`PartitionCount: 3\tReplicationFactor: 3\tConfigs: .*retention\.ms=86400000`,
			`Partition: 0\tLeader: [123]\tReplicas: [123],[123],[123]\tIsr: [123],[123],[123]\t`, `Partition: 1\tLeader: [123]\t`, `Partition: 2\tLeader: [123]\t`}},
		{tool: "kafka-configs", did: "--alter a topic", class: "ConfigCommand", args: append(entity, "--alter", "--add-config", "segment.bytes=2097152"),
			want: []string{`Completed updating config for topic ` + toolTopic}},
		{tool: "kafka-configs", did: "--describe it", class: "ConfigCommand", args: append(entity, "--describe"), want: []string{
			`retention\.ms=86400000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=86400000`,
			`segment\.bytes=2097152 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:segment\.bytes=2097152, DEFAULT_CONFIG:log\.segment\.bytes=`}},
		{tool: "kafka-producer-perf-test", did: fmt.Sprintf("%d records, acks=all", toolRecords), class: "ProducerPerformance",
			args: append(topic, "--num-records", strconv.Itoa(toolRecords), "--record-size", "200", "--throughput", "-1", "--command-property", "acks=all"),
			want: []string{fmt.Sprintf(`(?m)^%d records sent, .* ms 99\.9th\.$`, toolRecords)}, never: `Exception`},
		{tool: "kafka-get-offsets", did: "ends: together what was written", class: "GetOffsetShell", args: topic, also: endsAddUp},
		{tool: "kafka-delete-records", did: "partition 0 below offset 10", class: "DeleteRecordsCommand", args: []string{"--offset-json-file", deleteFile},
			want: []string{`partition: ` + toolTopic + `-0\tlow_watermark: 10`}},
		{tool: "kafka-get-offsets", did: "--time earliest: 10 in partition 0", class: "GetOffsetShell", args: append(topic, "--time", "earliest"),
			want: []string{toolTopic + `:0:10`, toolTopic + `:1:0`, toolTopic + `:2:0`}},
		{tool: "kafka-log-dirs", did: "--describe: three replicas on three nodes", class: "LogDirsCommand", args: []string{"--describe", "--topic-list", toolTopic},
			want: []string{`from brokers 1,2,3`, `(?s)(` + toolTopic + `-\d","size":[1-9]\d*,"offsetLag":\d+,"isFuture":false.*){9}`}, never: `"error":"`},
		{tool: "kafka-metadata-quorum", did: "describe --status", class: "MetadataQuorumCommand", args: []string{"describe", "--status"},
			want: []string{`LeaderId: +[123]\n`, `CurrentVoters: .*"id": 1.*"id": 2.*"id": 3`, `CurrentObservers: +\[\]`}},
		{tool: "kafka-metadata-quorum", did: "describe --replication", class: "MetadataQuorumCommand", args: []string{"describe", "--replication"},
			want: []string{`Leader`, `(?s)Follower.*Follower`}},
		{tool: "kafka-reassign-partitions", did: "--list", class: "reassign.ReassignPartitionsCommand", args: []string{"--list"},
			want: []string{`No partition reassignments found`}},
		{tool: "kafka-topics", did: "--alter, to 4 partitions", class: "TopicCommand", args: append(topic, "--alter", "--partitions", "4"), never: `(?i)error`},
		{tool: "kafka-topics", did: "--describe: there are 4", class: "TopicCommand", args: append(topic, "--describe"),
			want: []string{`PartitionCount: 4\t`, `Partition: 3\tLeader: [123]\t`}},
		{tool: "kafka-topics", did: "--delete", class: "TopicCommand", args: append(topic, "--delete"), never: `(?i)error`},
		{tool: "kafka-topics", did: "--list: it is gone", class: "TopicCommand", args: []string{"--list"}, never: `(?m)^` + toolTopic + `$`},
	}
}

func endsAddUp(out string) error {
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^`+toolTopic+`:[012]:(\d+)$`).FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		sum += n
	}
	if sum != toolRecords {
		return fmt.Errorf("the ends add up to %d, not %d", sum, toolRecords)
	}
	return nil
}

// all uses every tool once or more and gives a row for each use. The directory is for files that tools read.
func (k kafkaTools) all(ctx context.Context, seeds []string, dir string, limit time.Duration) []ToolRow {
	file := filepath.Join(dir, "delete-records.json")
	deletion := fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":10}]}`, toolTopic)
	if err := os.WriteFile(file, []byte(deletion), 0o644); err != nil {
		return []ToolRow{{Tool: "kafka-delete-records", Did: "its file", Fault: err}}
	}
	var rows []ToolRow
	for _, u := range uses(file) {
		row := ToolRow{Tool: u.tool, Did: u.did, Fault: k.use(ctx, u, seeds, limit)}
		if row.Fault != nil {
			say("%s %s: %v", u.tool, u.did, row.Fault)
		}
		rows = append(rows, row)
	}
	return rows
}

func (k kafkaTools) use(ctx context.Context, u use, seeds []string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := k.run(ctx, nil, u.class, append([]string{"--bootstrap-server", strings.Join(seeds, ",")}, u.args...)...)
	if err != nil {
		return err
	}
	return u.judge(out)
}

func (u use) judge(out string) error {
	for _, want := range u.want {
		if !regexp.MustCompile(want).MatchString(out) {
			return fmt.Errorf("%q is not in: %s", want, tail(out, 1500))
		}
	}
	if u.never != "" && regexp.MustCompile(u.never).MatchString(out) {
		return fmt.Errorf("%q is in: %s", u.never, tail(out, 1500))
	}
	if u.also != nil {
		return u.also(out)
	}
	return nil
}
