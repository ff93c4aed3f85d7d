package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/transport"
)

func handleAlterPartitionReassignments(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.AlterPartitionAssignmentsRequest)
	refused := func(err error) kmsg.Response {
		resp := reassignmentAnswer(req, nil)
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		return resp
	}
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, req.TimeoutMillis)
		defer cancel()
		return h.alterReassignments(ctx, req)
	}, refused)
}

// reassignmentAnswer answers every partition asked, in the request's order; errs may be shorter: the rest went well.
func reassignmentAnswer(req *kmsg.AlterPartitionAssignmentsRequest, errs []error) *kmsg.AlterPartitionAssignmentsResponse {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	if req.Version >= 1 {
		resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	}
	for _, t := range req.Topics {
		x := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		x.Topic = t.Topic
		for _, p := range t.Partitions {
			y := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			y.Partition = p.Partition
			if len(errs) > 0 {
				y.ErrorCode, y.ErrorMessage = code(errs[0]), message(errs[0])
				errs = errs[1:]
			}
			if y.ErrorCode == kerr.NoReassignmentInProgress.Code {
				y.ErrorMessage = nil
			}
			x.Partitions = append(x.Partitions, y)
		}
		resp.Topics = append(resp.Topics, x)
	}
	return resp
}

// alterReassignments begins and cancels moves; each succeeds or fails by itself.
func (h *Handlers) alterReassignments(ctx context.Context, req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	img := h.Metadata.Image()
	cmd := &metadata.Reassign{Request: requestID(ctx)}
	var errs []error
	var at []int // cmd.Items[i] is answered by errs[at[i]]
	move := mover{
		h: h, img: img, forced: isForced(&req.UnknownTags), named: map[record.PartitionID]bool{},
		sameFactor: req.Version >= 1 && !req.AllowReplicationFactorChange,
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			item, err := move.plan(t.Topic, &p)
			if item != nil {
				at = append(at, len(errs))
				cmd.Items = append(cmd.Items, *item)
			}
			errs = append(errs, err)
		}
	}
	if len(req.Topics) == 0 {
		resp := reassignmentAnswer(req, nil)
		resp.ErrorMessage = sentence(nil) // as Kafka: never null where nothing was asked
		return resp
	}
	if len(cmd.Items) > 0 {
		res, err := h.propose(ctx, cmd)
		for i, n := range at {
			if errs[n] = err; err == nil {
				errs[n] = itemError(res, i)
			}
		}
	}
	return reassignmentAnswer(req, errs)
}

// mover judges the wishes of one request.
type mover struct {
	h          *Handlers
	img        *metadata.Image
	forced     bool
	sameFactor bool // no move may change the number of replicas
	named      map[record.PartitionID]bool
}

// plan judges one wish. Neither an item nor an error means that there is nothing to do.
func (m *mover) plan(topic string, p *kmsg.AlterPartitionAssignmentsRequestTopicPartition) (*metadata.Reassignment, error) {
	id, known := partitionNamed(m.img, topic, p.Partition)
	if !known {
		return nil, refuse(kerr.UnknownTopicOrPartition, "topic %q has no partition %d", topic, p.Partition)
	}
	if m.named[id] {
		return nil, refuse(kerr.InvalidRequest, "the request names partition %d of topic %q more than once", p.Partition, topic)
	}
	m.named[id] = true
	now := m.img.Partition(id)
	moves := len(targetOf(now)) > 0
	item := &metadata.Reassignment{Partition: id, PartitionEpoch: metadata.AnyPartitionEpoch}
	if p.Replicas == nil {
		if !moves {
			return nil, refuse(kerr.NoReassignmentInProgress, "the replicas %v of %s-%d are not being changed", now.Replicas, topic, p.Partition)
		}
		return item, nil
	}
	if err := m.judge(topic, now, p.Replicas); err != nil {
		return nil, err
	}
	if moves {
		return nil, refuse(kerr.ReassignmentInProgress, "%s-%d is on its way from replicas %v to %v: cancel that first, or wait for it", topic, p.Partition, now.Replicas, targetOf(now))
	}
	if slices.Equal(p.Replicas, now.Replicas) {
		return nil, nil
	}
	item.Target, item.Forced = slices.Clone(p.Replicas), m.forced
	return item, nil
}

// judge says whether a partition may be on these replicas.
func (m *mover) judge(topic string, now *metadata.Partition, target []int32) error {
	if err := checkReplicas(m.img, target, len(target)); err != nil {
		return err
	}
	if m.sameFactor && len(target) != len(now.Replicas) {
		return fmt.Errorf("%w: %d replicas are named where there are %d, and the request forbids to change their number", metadata.ErrInvalidAssignment, len(target), len(now.Replicas))
	}
	if len(target) < int(now.MinISR) {
		return fmt.Errorf("%w: %d replicas are named, and %s is %d: acks=all would always be refused", metadata.ErrInvalidAssignment, len(target), metadata.SettingMinISR, now.MinISR)
	}
	if t := m.img.Topic(topic); t != nil {
		if n := m.h.config(m.img, t).MinAcks; int(n) > len(target) {
			return fmt.Errorf("%w: %d replicas are named, and %s is %d: no record would ever be acknowledged", metadata.ErrInvalidAssignment, len(target), metadata.SettingMinAcks, n)
		}
	}
	if err := twoReplicasForced(now.Rule, len(target), m.forced || len(now.Replicas) == 2); err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrInvalidAssignment, err)
	}
	return nil
}

func handleListPartitionReassignments(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.ListPartitionReassignmentsRequest)
	return h.onController(r, func(context.Context) kmsg.Response { return h.listReassignments(req) }, func(err error) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		return resp
	})
}

// listReassignments gives the moves of the partitions asked, of all where none is named; what does not move is left out.
func (h *Handlers) listReassignments(req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	img := h.Metadata.Image()
	list := func(t *metadata.Topic, asked func(n int32) bool) {
		x := kmsg.NewListPartitionReassignmentsResponseTopic()
		x.Topic = t.Name
		for n, p := range t.Partitions {
			if len(targetOf(p)) > 0 && asked(int32(n)) {
				x.Partitions = append(x.Partitions, reassignmentOf(p, int32(n)))
			}
		}
		if len(x.Partitions) > 0 {
			resp.Topics = append(resp.Topics, x)
		}
	}
	if req.Topics == nil {
		for t := range img.Topics() {
			list(t, func(int32) bool { return true })
		}
		return resp
	}
	for _, asked := range req.Topics {
		if t := img.Topic(asked.Topic); t != nil {
			list(t, func(n int32) bool { return slices.Contains(asked.Partitions, n) })
		}
	}
	return resp
}

func reassignmentOf(p *metadata.Partition, n int32) kmsg.ListPartitionReassignmentsResponseTopicPartition {
	x := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	x.Partition, x.Replicas = n, shownReplicas(p)
	x.AddingReplicas, x.RemovingReplicas = []int32{}, []int32{}
	target := targetOf(p)
	for _, id := range target {
		if !slices.Contains(p.Replicas, id) {
			x.AddingReplicas = append(x.AddingReplicas, id)
		}
	}
	for _, id := range p.Replicas {
		if !slices.Contains(target, id) {
			x.RemovingReplicas = append(x.RemovingReplicas, id)
		}
	}
	return x
}
