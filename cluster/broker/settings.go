package broker

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/configs"
	"cordwood/fsm/metadata"
	"cordwood/transport/api"
)

// Kafka's ConfigSource numbers.
const (
	sourceStatic  = 4 // from the node's file, environment or flags
	sourceDefault = 5
)

func ms(d configs.Duration) string {
	if d < 0 {
		return "-1"
	}
	return strconv.FormatInt(time.Duration(d).Milliseconds(), 10)
}

func bytesOf(b configs.ByteSize) string { return strconv.FormatInt(b.Int64(), 10) }

// orNever is n, or Kafka's "never by itself" for 0.
func orNever(n int64) string {
	if n == 0 {
		n = math.MaxInt64
	}
	return strconv.FormatInt(n, 10)
}

// topicOverrides are the node's defaults for topics under the topic settings' names.
func topicOverrides(c *configs.Config) map[string]string {
	return map[string]string{
		"segment.bytes":                  bytesOf(c.Storage.SegmentBytes),
		"segment.ms":                     ms(c.Storage.SegmentMS),
		"index.interval.bytes":           bytesOf(c.Storage.IndexIntervalBytes),
		"retention.ms":                   ms(c.Storage.RetentionMS),
		"retention.bytes":                bytesOf(c.Storage.RetentionBytes),
		"flush.messages":                 orNever(c.Storage.FlushMessages),
		"flush.ms":                       orNever(time.Duration(c.Storage.FlushMS).Milliseconds()),
		"max.message.bytes":              bytesOf(c.Topics.MaxMessageBytes),
		"unclean.leader.election.enable": strconv.FormatBool(c.Topics.UncleanLeaderElection),
	}
}

func topicDefaults(c *configs.Config, d *metadata.Defaults) api.TopicDefaults {
	return api.TopicDefaults{Partitions: c.Topics.Partitions, Replication: c.Topics.Replication, AutoCreate: c.Topics.AutoCreate, Settings: d}
}

// brokerConfigs is the effective configuration under Kafka's names, for DescribeConfigs of this broker. All of it is
// read-only: it is changed in the configuration file.
func brokerConfigs(c *configs.Config) []api.BrokerConfig {
	def, _, err := configs.Load("", nil, nil)
	if err != nil {
		def = c // the built-in defaults always load; without them everything would be shown as set
	}
	rows := func(c *configs.Config) []api.BrokerConfig {
		var listeners, advertised, protocols []string
		for name, l := range c.Listeners {
			upper := strings.ToUpper(name)
			listeners = append(listeners, upper+"://"+l.Bind)
			advertised = append(advertised, upper+"://"+l.Advertise)
			protocols = append(protocols, upper+":PLAINTEXT")
		}
		for _, l := range [][]string{listeners, advertised, protocols} {
			slices.Sort(l)
		}
		row := func(name string, typ kmsg.ConfigType, value, doc string) api.BrokerConfig {
			return api.BrokerConfig{Name: name, Value: value, Doc: doc, Type: typ}
		}
		return []api.BrokerConfig{
			row("node.id", kmsg.ConfigTypeInt, strconv.Itoa(int(c.Node.ID)), "node.id: id of this node."),
			row("broker.id", kmsg.ConfigTypeInt, strconv.Itoa(int(c.Node.ID)), "node.id under its older name."),
			row("broker.rack", kmsg.ConfigTypeString, c.Node.Rack, "node.rack: where the node stands."),
			row("log.dirs", kmsg.ConfigTypeString, c.Node.DataDir, "node.data_dir: the directory of the logs."),
			row("listeners", kmsg.ConfigTypeList, strings.Join(listeners, ","), "listeners.*.bind: the addresses listened on."),
			row("advertised.listeners", kmsg.ConfigTypeList, strings.Join(advertised, ","), "listeners.*.advertise: the addresses that clients are told."),
			row("listener.security.protocol.map", kmsg.ConfigTypeString, strings.Join(protocols, ","), "What each listener speaks."),
			row("inter.broker.listener.name", kmsg.ConfigTypeString, strings.ToUpper(c.InterBrokerListener), "inter_broker_listener: the listener between nodes."),
			row("num.partitions", kmsg.ConfigTypeInt, strconv.Itoa(int(c.Topics.Partitions)), "topics.partitions: partitions of a topic whose maker does not say."),
			row("default.replication.factor", kmsg.ConfigTypeInt, strconv.Itoa(int(c.Topics.Replication)), "topics.replication: replicas when the maker does not say, lowered to the number of nodes."),
			row("auto.create.topics.enable", kmsg.ConfigTypeBoolean, strconv.FormatBool(c.Topics.AutoCreate), "topics.auto_create: make a topic that a client asks for."),
			row("message.max.bytes", kmsg.ConfigTypeInt, bytesOf(c.Topics.MaxMessageBytes), "topics.max_message_bytes: the largest record batch."),
			row("unclean.leader.election.enable", kmsg.ConfigTypeBoolean, strconv.FormatBool(c.Topics.UncleanLeaderElection), "topics.unclean_leader_election."),
			row("log.segment.bytes", kmsg.ConfigTypeInt, bytesOf(c.Storage.SegmentBytes), "storage.segment_bytes."),
			row("log.roll.ms", kmsg.ConfigTypeLong, ms(c.Storage.SegmentMS), "storage.segment_ms."),
			row("log.index.interval.bytes", kmsg.ConfigTypeInt, bytesOf(c.Storage.IndexIntervalBytes), "storage.index_interval_bytes."),
			row("log.retention.ms", kmsg.ConfigTypeLong, ms(c.Storage.RetentionMS), "storage.retention_ms."),
			row("log.retention.bytes", kmsg.ConfigTypeLong, bytesOf(c.Storage.RetentionBytes), "storage.retention_bytes."),
			row("log.retention.check.interval.ms", kmsg.ConfigTypeLong, ms(c.Storage.RetentionCheckInterval), "storage.retention_check_interval."),
			row("log.flush.interval.messages", kmsg.ConfigTypeLong, orNever(c.Storage.FlushMessages), "storage.flush_messages."),
			row("log.flush.interval.ms", kmsg.ConfigTypeLong, orNever(time.Duration(c.Storage.FlushMS).Milliseconds()), "storage.flush_ms."),
			row("replica.lag.time.max.ms", kmsg.ConfigTypeLong, ms(c.Replication.LagTimeMax), "replication.lag_time_max."),
			row("replica.fetch.wait.max.ms", kmsg.ConfigTypeInt, ms(c.Replication.FetchWaitMax), "replication.fetch_wait_max."),
			row("replica.fetch.response.max.bytes", kmsg.ConfigTypeInt, bytesOf(c.Replication.FetchMaxBytes), "replication.fetch_max_bytes."),
			row("broker.session.timeout.ms", kmsg.ConfigTypeInt, ms(c.Cluster.SessionTimeout), "cluster.session_timeout."),
			row("broker.heartbeat.interval.ms", kmsg.ConfigTypeInt, ms(c.Cluster.HeartbeatInterval), "cluster.heartbeat_interval."),
			row("socket.request.max.bytes", kmsg.ConfigTypeInt, bytesOf(c.Limits.RequestMaxBytes), "limits.request_max_bytes."),
			row("max.connections", kmsg.ConfigTypeInt, strconv.Itoa(c.Limits.ConnectionsMax), "limits.connections_max."),
			row("connections.max.idle.ms", kmsg.ConfigTypeLong, ms(c.Limits.ConnectionsMaxIdle), "limits.connections_max_idle."),
			row("queued.max.request.bytes", kmsg.ConfigTypeLong, bytesOf(c.Limits.InflightBytes), "limits.inflight_bytes."),
		}
	}
	out, defaults := rows(c), rows(def)
	for i := range out {
		out[i].ReadOnly = true
		out[i].Default = out[i].Value == defaults[i].Value
		out[i].Source = sourceStatic
		if out[i].Default {
			out[i].Source = sourceDefault
		}
	}
	return out
}
