package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"cordwood/transport"
	"cordwood/transport/api/apitest"
)

// node is a cluster of one with logs behind a real server.
func node(t testing.TB, change func(*transport.Options)) (*apitest.Logs, *transport.Server) {
	t.Helper()
	w := apitest.New(t, 1)
	l := apitest.NewLogs(t, w)
	return l, apitest.Serve(t, w, change)
}

func client(t testing.TB, srv *transport.Server, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(srv.Addr("external").String()), kgo.RetryTimeout(10 * time.Second), kgo.RecordDeliveryTimeout(10 * time.Second),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}, opts...)
	c, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestAClientReadsWhatItWroteInEveryCodec(t *testing.T) {
	l, srv := node(t, nil)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		require.Zero(t, created(t, l.Cluster, name, 3, 1).ErrorCode)
		producer := client(t, srv, kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(name), kgo.MaxBufferedRecords(5000))
		const n = 2000
		for i := range n {
			producer.Produce(t.Context(), &kgo.Record{Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i), Headers: []kgo.RecordHeader{{Key: "id", Value: fmt.Append(nil, i)}}}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		require.NoError(t, producer.Flush(t.Context()))
		consumer := client(t, srv, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		got := map[string]string{}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		for len(got) < n {
			fetches := consumer.PollFetches(ctx)
			require.NoError(t, fetches.Err0())
			fetches.EachError(func(_ string, _ int32, err error) { t.Errorf("%s: %v", name, err) })
			fetches.EachRecord(func(r *kgo.Record) { got[string(r.Key)] = string(r.Value) })
			require.NoError(t, ctx.Err())
		}
		cancel()
		for i := range n {
			require.Equal(t, fmt.Sprintf("v%d", i), got[fmt.Sprintf("k%d", i)], name)
		}
		consumer.Close()
		producer.Close()
	}
	require.NoError(t, srv.Close())
	require.Zero(t, l.Held(), "file ranges were not given back")
}
