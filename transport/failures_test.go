package transport

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestEveryErrorOfAnAnswerIsCountedByItsName(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := newMetrics(reg, newBudget(1))
	require.NoError(t, err)
	full, gone := kerr.KafkaStorageError.Code, kerr.UnknownTopicOrPartition.Code
	produce := &kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{{Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: full}, {}, {ErrorCode: full}}}}}
	m.failures(kmsg.Produce.Int16(), &Response{Body: produce})
	m.failures(kmsg.Metadata.Int16(), &Response{Body: &kmsg.MetadataResponse{Topics: []kmsg.MetadataResponseTopic{{ErrorCode: gone}, {}}}})
	m.failures(kmsg.Fetch.Int16(), &Response{Pieces: []Piece{{}}, Failed: []int16{gone}})
	m.failures(kmsg.CreateTopics.Int16(), &Response{Body: &kmsg.CreateTopicsResponse{Topics: []kmsg.CreateTopicsResponseTopic{{ErrorCode: 31000}}}})
	families, err := reg.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "cordwood_request_errors_total" {
			for _, x := range f.GetMetric() {
				got[x.GetLabel()[0].GetValue()+" "+x.GetLabel()[1].GetValue()] = x.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"Produce KAFKA_STORAGE_ERROR": 2, "Metadata UNKNOWN_TOPIC_OR_PARTITION": 1,
		"Fetch UNKNOWN_TOPIC_OR_PARTITION": 1, "CreateTopics " + errorName(31000): 1}, got)
	fine := &Response{Body: &kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{{Partitions: make([]kmsg.ProduceResponseTopicPartition, 3)}}}}
	require.Zero(t, testing.AllocsPerRun(100, func() { m.failures(kmsg.Produce.Int16(), fine) }), "a produced batch costs nothing here")
}
