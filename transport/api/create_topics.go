package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/transport"
)

func handleCreateTopics(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.CreateTopicsRequest)
	refused := func(err error) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, t := range topicsAsked(req) {
			resp.Topics = append(resp.Topics, topicRefused(t.Topic, err))
		}
		return resp
	}
	if req.TimeoutMillis <= 0 {
		return body(silent(refused(kerr.RequestTimedOut)))
	}
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, req.TimeoutMillis)
		defer cancel()
		return h.createTopics(ctx, req, refused)
	}, refused)
}

// silent takes the sentences out of a CreateTopics answer: a request without time is told its code alone.
func silent(resp kmsg.Response) kmsg.Response {
	topics := resp.(*kmsg.CreateTopicsResponse).Topics
	for i := range topics {
		topics[i].ErrorMessage = nil
	}
	return resp
}

// topicsAsked gives the wishes of a request by name, in order. A name given more than once is there once, and marked.
func topicsAsked(req *kmsg.CreateTopicsRequest) []topicAsked {
	at := make(map[string]int, len(req.Topics))
	var l []topicAsked
	for i := range req.Topics {
		t := &req.Topics[i]
		if n, again := at[t.Topic]; again {
			l[n].again = true
			continue
		}
		at[t.Topic] = len(l)
		l = append(l, topicAsked{CreateTopicsRequestTopic: t})
	}
	return l
}

type topicAsked struct {
	*kmsg.CreateTopicsRequestTopic
	again bool
}

func topicRefused(name string, err error) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode, t.ErrorMessage = name, code(err), message(err)
	t.NumPartitions, t.ReplicationFactor = -1, -1
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return t
}

func (h *Handlers) createTopics(ctx context.Context, req *kmsg.CreateTopicsRequest, refused func(error) kmsg.Response) kmsg.Response {
	total := 0
	for _, t := range req.Topics {
		total += h.partitionsWanted(&t)
	}
	if total >= mostPartitionsPerRequest {
		return refused(refuse(kerr.PolicyViolation, "%d partitions in one request; it may create fewer than %d", total, mostPartitionsPerRequest))
	}
	img := h.Metadata.Image()
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	cmd := &metadata.CreateTopics{Request: requestID(ctx)}
	var at []int // cmd.Topics[i] is answered in resp.Topics[at[i]]
	planned := map[string]string{}
	for _, asked := range topicsAsked(req) {
		t, err := h.planTopic(img, asked)
		if err == nil {
			metric := metadata.MetricName(t.Name)
			if other, taken := planned[metric]; taken {
				err = collides(t.Name, other)
			} else {
				planned[metric] = t.Name
			}
		}
		if err != nil {
			resp.Topics = append(resp.Topics, topicRefused(asked.Topic, err))
			continue
		}
		at = append(at, len(resp.Topics))
		cmd.Topics = append(cmd.Topics, t)
		resp.Topics = append(resp.Topics, h.topicCreated(&t))
	}
	if req.ValidateOnly || len(cmd.Topics) == 0 {
		return resp
	}
	res, err := h.propose(ctx, cmd)
	for i, n := range at {
		e := err
		if e == nil {
			e = itemError(res, i)
		}
		if e != nil {
			resp.Topics[n] = topicRefused(cmd.Topics[i].Name, e)
			continue
		}
		if t := h.Metadata.Image().Topic(cmd.Topics[i].Name); t != nil {
			resp.Topics[n].TopicID = t.ID // the first try's, if this was a forwarded request come again
			h.awaitLeaders(ctx, t.ID, 0)
		}
	}
	return resp
}

func collides(name, other string) error {
	return fmt.Errorf("%w: %q differs from %q only in dots and underscores", metadata.ErrInvalidTopic, name, other)
}

// partitionsWanted is the number of partitions that a wish would create.
func (h *Handlers) partitionsWanted(t *kmsg.CreateTopicsRequestTopic) int {
	switch {
	case len(t.ReplicaAssignment) > 0:
		return len(t.ReplicaAssignment)
	case t.NumPartitions == -1:
		return int(h.Node.TopicDefaults.Partitions)
	default:
		return int(max(0, t.NumPartitions))
	}
}

// planTopic judges a wish in the order in which Kafka does, and places it.
func (h *Handlers) planTopic(img *metadata.Image, t topicAsked) (metadata.NewTopic, error) {
	name := t.Topic
	n := metadata.NewTopic{Name: name, Rule: metadata.RuleISR, Durability: metadata.DurabilityMemory, Forced: isForced(&t.UnknownTags)}
	if t.again {
		return n, refuse(kerr.InvalidRequest, "the request names topic %q more than once", name)
	}
	if name == metadata.MetadataTopic {
		return n, refuse(kerr.InvalidRequest, "topic %q is the metadata log's own", name)
	}
	if err := metadata.CheckTopicName(name); err != nil {
		return n, err
	}
	if other := img.Colliding(name); other != "" {
		return n, collides(name, other)
	}
	if img.Topic(name) != nil {
		return n, fmt.Errorf("%w: %q", metadata.ErrTopicExists, name)
	}
	if err := h.takeSettings(&n, t.Configs); err != nil {
		return n, err
	}
	if err := h.place(img, &n, t.CreateTopicsRequestTopic); err != nil {
		return n, err
	}
	replicas := len(n.Assignment[0])
	if err := newTopicHolds(&n, replicas); err != nil {
		return n, err
	}
	if n.MinISR == 0 {
		n.MinISR = h.Node.TopicDefaults.Settings.MinISRFor(replicas)
	}
	n.ID = record.NewTopicID()
	return n, metadata.CheckLevel(img.Level(), n.NeedsLevel())
}

func (h *Handlers) takeSettings(n *metadata.NewTopic, configs []kmsg.CreateTopicsRequestTopicConfig) error {
	n.Recovery = h.Node.TopicDefaults.Settings.Effective(nil).Recovery
	for _, c := range configs {
		if c.Value == nil {
			return fmt.Errorf("%w: %q has a null value", metadata.ErrInvalidConfig, c.Name)
		}
		value, err := metadata.AcceptSetting(c.Name, *c.Value)
		if err != nil {
			return err
		}
		if n.Configs == nil {
			n.Configs = make(map[string]string, len(configs))
		}
		n.Configs[c.Name] = *c.Value
		createdWith(n, c.Name, value)
	}
	return nil
}

// place takes the wish's own assignment, or makes one.
func (h *Handlers) place(img *metadata.Image, n *metadata.NewTopic, t *kmsg.CreateTopicsRequestTopic) error {
	if len(t.ReplicaAssignment) > 0 {
		if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
			return refuse(kerr.InvalidRequest, "an assignment is given together with a number of partitions or replicas")
		}
		byNumber := make([][]int32, len(t.ReplicaAssignment))
		for _, a := range t.ReplicaAssignment {
			if a.Partition < 0 || int(a.Partition) >= len(byNumber) || byNumber[a.Partition] != nil {
				return fmt.Errorf("%w: partition numbers must be 0 to %d, each once", metadata.ErrInvalidAssignment, len(byNumber)-1)
			}
			if err := checkReplicas(img, a.Replicas, len(t.ReplicaAssignment[0].Replicas)); err != nil {
				return fmt.Errorf("partition %d: %w", a.Partition, err)
			}
			byNumber[a.Partition] = slices.Clone(a.Replicas)
		}
		n.Assignment = byNumber
		return nil
	}
	partitions, replication := t.NumPartitions, int(t.ReplicationFactor)
	if partitions == -1 {
		partitions = h.Node.TopicDefaults.Partitions
	}
	if partitions <= 0 {
		return fmt.Errorf("%w: %d; it must be at least 1, or -1 for the default", metadata.ErrInvalidPartitions, partitions)
	}
	if replication == -1 {
		replication = min(int(h.Node.TopicDefaults.Replication), max(1, registeredBrokers(img)))
	}
	placed, err := metadata.Place(img, int(partitions), replication, rand.Uint64())
	n.Assignment = placed
	return err
}

// checkReplicas says whether a hand-made list of replicas can stand.
func checkReplicas(img *metadata.Image, replicas []int32, want int) error {
	if len(replicas) == 0 {
		return fmt.Errorf("%w: no replica is named", metadata.ErrInvalidAssignment)
	}
	if len(replicas) != want {
		return fmt.Errorf("%w: %d replicas are named where there are %d", metadata.ErrInvalidAssignment, len(replicas), want)
	}
	alive := false
	for i, id := range replicas {
		if slices.Contains(replicas[:i], id) {
			return fmt.Errorf("%w: node %d is named twice", metadata.ErrInvalidAssignment, id)
		}
		b := img.Broker(id)
		if b == nil {
			return fmt.Errorf("%w: node %d is not registered", metadata.ErrInvalidAssignment, id)
		}
		alive = alive || b.MayLead()
	}
	if !alive {
		return fmt.Errorf("%w: none of the nodes %v is alive", metadata.ErrInvalidAssignment, replicas)
	}
	return nil
}

// topicCreated is the answer for a topic as planned.
func (h *Handlers) topicCreated(n *metadata.NewTopic) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.TopicID = n.Name, n.ID
	t.NumPartitions, t.ReplicationFactor = int32(len(n.Assignment)), int16(len(n.Assignment[0]))
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	minISR := h.Node.TopicDefaults.Settings.MinISRFor(len(n.Assignment[0]))
	for _, s := range metadata.Settings() {
		d := h.describeSetting(&s, n.Configs, minISR)
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Source, c.Value = s.Name, int8(d.source), &d.value
		if raw, own := n.Configs[s.Name]; own {
			c.Value = &raw // as it was given
		}
		t.Configs = append(t.Configs, c)
	}
	return t
}
