package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// deletion is one topic that a request names, by name or by id.
type deletion struct {
	name  *string
	id    record.TopicID
	topic *metadata.Topic // what it names; nil if nothing
	err   error
}

func handleDeleteTopics(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.DeleteTopicsRequest)
	refused := func(err error) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
		for _, d := range deletionsAsked(req) {
			d.err = err
			resp.Topics = append(resp.Topics, d.answer())
		}
		return resp
	}
	if req.TimeoutMillis <= 0 {
		resp := refused(kerr.RequestTimedOut).(*kmsg.DeleteTopicsResponse)
		for i := range resp.Topics {
			resp.Topics[i].ErrorMessage = nil
		}
		return body(resp)
	}
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, req.TimeoutMillis)
		defer cancel()
		return h.deleteTopics(ctx, req)
	}, refused)
}

func deletionsAsked(req *kmsg.DeleteTopicsRequest) []deletion {
	var l []deletion
	if req.Version < 6 {
		for i := range req.TopicNames {
			l = append(l, deletion{name: &req.TopicNames[i]})
		}
		return l
	}
	for i := range req.Topics {
		l = append(l, deletion{name: req.Topics[i].Topic, id: req.Topics[i].TopicID})
	}
	return l
}

func (d *deletion) answer() kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID = d.name, d.id
	t.ErrorCode, t.ErrorMessage = code(d.err), message(d.err)
	return t
}

func (h *Handlers) deleteTopics(ctx context.Context, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	judged := judgeDeletions(h.Metadata.Image(), deletionsAsked(req))
	cmd := &metadata.DeleteTopics{Request: requestID(ctx)}
	for _, d := range judged {
		if d.err == nil {
			cmd.Topics = append(cmd.Topics, d.topic.ID)
		}
	}
	var res metadata.Result
	var err error
	if len(cmd.Topics) > 0 {
		res, err = h.propose(ctx, cmd)
	}
	n := 0
	for _, d := range judged {
		if d.err == nil {
			d.name, d.id = &d.topic.Name, d.topic.ID
			if d.err = err; err == nil {
				d.err = itemError(res, n)
			}
			n++
		}
		resp.Topics = append(resp.Topics, d.answer())
	}
	return resp
}

// judgeDeletions finds what is named. A topic named twice, in whatever way, is answered once, and stays.
func judgeDeletions(img *metadata.Image, asked []deletion) []deletion {
	names, ids, topics := map[string]int{}, map[record.TopicID]int{}, map[record.TopicID]int{}
	for i := range asked {
		d := &asked[i]
		switch {
		case (d.name == nil) == d.id.IsZero():
			d.err = refuse(kerr.InvalidRequest, "a topic is named by its name or by its id, by one of them")
			continue
		case d.name != nil:
			names[*d.name]++
			if d.topic = img.Topic(*d.name); d.topic == nil {
				d.err = refuse(kerr.UnknownTopicOrPartition, "no topic is called %q", *d.name)
			}
		default:
			ids[d.id]++
			if d.topic = img.TopicByID(d.id); d.topic == nil {
				d.err = refuse(kerr.UnknownTopicID, "no topic has the id %s", d.id)
			}
		}
		if d.topic != nil {
			topics[d.topic.ID]++
		}
	}
	var l []deletion
	answered := map[any]bool{}
	for _, d := range asked {
		if (d.name == nil) == d.id.IsZero() {
			l = append(l, d)
			continue
		}
		var key any = d.id
		twice := ids[d.id] > 1
		if d.name != nil {
			key, twice = *d.name, names[*d.name] > 1
		}
		if d.topic != nil {
			key = d.topic.ID
			if names[d.topic.Name] > 0 && ids[d.topic.ID] > 0 { // once in each way: the answer carries both
				d.name, d.id = &d.topic.Name, d.topic.ID
			}
			twice = topics[d.topic.ID] > 1
		}
		if twice {
			d.err = refuse(kerr.InvalidRequest, "the request names this topic more than once")
			if answered[key] {
				continue
			}
			answered[key] = true
		}
		l = append(l, d)
	}
	return l
}
