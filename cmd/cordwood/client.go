package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	retryEvery  = 100 * time.Millisecond // between two tries of a refused seed
	dialTimeout = 3 * time.Second
	answerSlack = 3 * time.Second // beyond a request's own timeout, before another node is asked
)

// client asks a cluster. It retries what may be retried until its context ends.
type client struct {
	*kgo.Client
	app *app
}

// ask runs fn with a client that has reached at least one seed, all of it within --timeout.
func (a *app) ask(ctx context.Context, fn func(context.Context, *client) error, opts ...kgo.Opt) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c, err := a.connect(ctx, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(ctx, c)
}

// connect makes a client and tries every seed, refused ones again every 100 ms, until one answers or ctx ends. The
// caller closes the client.
func (a *app) connect(ctx context.Context, opts ...kgo.Opt) (*client, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(a.brokers...),
		kgo.ClientID("cordwood"),
		kgo.SoftwareNameAndVersion("cordwood", strings.ReplaceAll(buildVersion(), "+", "-")),
		kgo.DisableClientMetrics(),
		kgo.DialTimeout(min(dialTimeout, a.timeout)),
		kgo.RequestTimeoutOverhead(answerSlack),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryEvery }),
		kgo.RequestRetries(1 << 20), // the context ends it
		kgo.RetryTimeout(a.timeout),
		kgo.MetadataMinAge(retryEvery),
	}
	dials := new(dialLog)
	base = append(base, kgo.WithHooks(dials))
	if a.verbose {
		base = append(base, kgo.WithHooks(&requestLog{app: a}))
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, usage(err.Error())
	}
	tried, stop := context.WithTimeout(ctx, a.timeout)
	defer stop()
	for {
		err := cl.Ping(tried)
		if err == nil {
			return &client{Client: cl, app: a}, nil
		}
		select {
		case <-afterRetry():
		case <-tried.Done():
			err = dials.reason(err) // before closing, which ends dials too
			cl.Close()
			if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
			f := &failure{code: exitUnreachable, err: fmt.Errorf("no node answered at %s within %s: %w", strings.Join(a.brokers, ", "), a.timeout, plainDialError(err))}
			f.hint = "name a node with -b host:port"
			return nil, f
		}
	}
}

// dialLog remembers why the newest connection could not be made. Safe for concurrent use.
type dialLog struct {
	last atomic.Pointer[error]
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (d *dialLog) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		d.last.Store(&err)
	}
}

// reason is err, or what kept the node from being reached where err says only that the time was over.
func (d *dialLog) reason(err error) error {
	if last := d.last.Load(); last != nil && errors.Is(err, context.DeadlineExceeded) {
		return *last
	}
	return err
}

// plainDialError takes the system's reason out of what the library wraps around it.
func plainDialError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	return err
}

// timeoutMillis is --timeout for the field of a request.
func (a *app) timeoutMillis() int32 { return int32(min(a.timeout.Milliseconds(), 1<<31-1)) }

// metadata asks for topics by name; nil asks for all.
func (c *client) metadata(ctx context.Context, topics []string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	if topics != nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	return req.RequestWith(ctx, c.Client)
}

// noTopic is the error for a topic that is not there.
func noTopic(name string) error {
	return &failure{code: exitNotFound, err: fmt.Errorf("there is no topic %q", name), kafka: "UNKNOWN_TOPIC_OR_PARTITION",
		hint: "create it with cordwood topic create " + name}
}

// heardWithin is how long a topic that another node has just answered for may be unknown to the one that is asked.
const heardWithin = 500 * time.Millisecond

// heard calls ask again for a moment while a topic is not known.
func heard[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for deadline := time.Now().Add(heardWithin); ; {
		v, err := ask()
		var f *failure
		unknown := errors.As(err, &f) && f.code == exitNotFound
		if !unknown || time.Now().After(deadline) {
			return v, err
		}
		select {
		case <-afterRetry():
		case <-ctx.Done():
			return v, err
		}
	}
}

// topic finds one topic with its partitions, or fails.
func (c *client) topic(ctx context.Context, name string) (*kmsg.MetadataResponseTopic, error) {
	return heard(ctx, func() (*kmsg.MetadataResponseTopic, error) { return c.topicNow(ctx, name) })
}

func (c *client) topicNow(ctx context.Context, name string) (*kmsg.MetadataResponseTopic, error) {
	resp, err := c.metadata(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("asked for one topic, got %d", len(resp.Topics))
	}
	t := &resp.Topics[0]
	if t.ErrorCode == unknownTopic {
		return nil, noTopic(name)
	}
	return t, refused(name, t.ErrorCode, nil)
}

const unknownTopic = 3 // UNKNOWN_TOPIC_OR_PARTITION

// offsets asks each partition's leader for one offset: -2 the first, -1 the end, else the first at or after a time.
// Partitions that could not answer are absent from the result; the last reason is the error if none could.
func (c *client) offsets(ctx context.Context, topic string, partitions []int32, at int64) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.TimeoutMillis = c.app.timeoutMillis()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	out := map[int32]int64{}
	var last error
	for _, shard := range c.RequestSharded(ctx, req) {
		if shard.Err != nil {
			last = shard.Err
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					last = refused(fmt.Sprintf("%s/%d", topic, p.Partition), p.ErrorCode, nil)
					continue
				}
				out[p.Partition] = p.Offset
			}
		}
	}
	if len(out) == 0 && len(partitions) > 0 {
		return nil, last
	}
	return out, nil
}

// Private tags that a node puts beside Kafka's fields. A body is a version byte, 1, and JSON.
const (
	nodeTag      = 10020 // on each broker of DescribeCluster
	partitionTag = 10021 // on each partition of DescribeTopicPartitions
	tagVersion   = 1
)

// privateTag reads one of our tags; ok is false where it is absent, as on another Kafka.
func privateTag(tags *kmsg.Tags, key uint32, into any) (ok bool, err error) {
	tags.Each(func(k uint32, body []byte) {
		if k != key {
			return
		}
		if ok = true; len(body) == 0 || body[0] != tagVersion {
			err = fmt.Errorf("private field %d has a format of a newer version", key)
			return
		}
		err = json.Unmarshal(body[1:], into)
	})
	return ok, err
}

// requestLog is -v: a line per request.
type requestLog struct{ app *app }

// OnBrokerE2E is called by the library after each answer.
func (l *requestLog) OnBrokerE2E(meta kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	to := net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port))
	if err := e2e.Err(); err != nil {
		fmt.Fprintf(l.app.err, "%s of %s: %v\n", kmsg.NameForKey(key), to, err)
		return
	}
	fmt.Fprintf(l.app.err, "%s of %s: %s\n", kmsg.NameForKey(key), to, e2e.DurationE2E().Round(time.Microsecond))
}

// OnBrokerConnect is called by the library after each dial.
func (l *requestLog) OnBrokerConnect(meta kgo.BrokerMetadata, took time.Duration, _ net.Conn, err error) {
	to := net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port))
	if err != nil {
		fmt.Fprintf(l.app.err, "dial %s: %v\n", to, err)
		return
	}
	fmt.Fprintf(l.app.err, "dial %s: %s\n", to, took.Round(time.Microsecond))
}

// afterRetry fires when a refused question may be asked again.
func afterRetry() <-chan time.Time { return time.After(retryEvery) }
