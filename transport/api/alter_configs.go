package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport"
)

// alteration is the change that a request wants of one resource, in either of the two APIs.
type alteration struct {
	resource
	replace bool // what is not set is removed
	forced  bool // what is refused for good reason is taken
	edits   []edit
	err     error
}

type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

type edit struct {
	op    kmsg.IncrementalAlterConfigOp
	name  string
	value *string
}

func handleAlterConfigs(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.AlterConfigsRequest)
	answer := func(l []alteration) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
		for _, a := range l {
			x := kmsg.NewAlterConfigsResponseResource()
			x.ResourceType, x.ResourceName, x.ErrorCode, x.ErrorMessage = a.kind, a.name, code(a.err), message(a.err)
			resp.Resources = append(resp.Resources, x)
		}
		return resp
	}
	var asked []alteration
	for _, x := range req.Resources {
		a := alteration{resource: resource{x.ResourceType, x.ResourceName}, replace: true, forced: isForced(&x.UnknownTags)}
		for _, c := range x.Configs {
			a.edits = append(a.edits, edit{kmsg.IncrementalAlterConfigOpSet, c.Name, c.Value})
		}
		asked = append(asked, a)
	}
	return h.handleAlterations(r, asked, req.ValidateOnly, answer)
}

func handleIncrementalAlterConfigs(h *Handlers, _ context.Context, r *transport.Request) transport.Response {
	req := r.Body.(*kmsg.IncrementalAlterConfigsRequest)
	answer := func(l []alteration) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		for _, a := range l {
			x := kmsg.NewIncrementalAlterConfigsResponseResource()
			x.ResourceType, x.ResourceName, x.ErrorCode, x.ErrorMessage = a.kind, a.name, code(a.err), message(a.err)
			resp.Resources = append(resp.Resources, x)
		}
		return resp
	}
	var asked []alteration
	for _, x := range req.Resources {
		a := alteration{resource: resource{x.ResourceType, x.ResourceName}, forced: isForced(&x.UnknownTags)}
		for _, c := range x.Configs {
			a.edits = append(a.edits, edit{c.Op, c.Name, c.Value})
		}
		asked = append(asked, a)
	}
	if h.delaysFetches(asked) {
		if asked[0].err = h.delayFetches(&asked[0], req.ValidateOnly); asked[0].err != nil {
			h.log.Debug("fetches are not delayed", "err", asked[0].err)
		}
		return body(answer(asked))
	}
	return h.handleAlterations(r, asked, req.ValidateOnly, answer)
}

func (h *Handlers) handleAlterations(r *transport.Request, asked []alteration, validate bool, answer func([]alteration) kmsg.Response) transport.Response {
	return h.onController(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, longestAdminWait)
		defer cancel()
		h.alterConfigs(ctx, asked, validate)
		return answer(asked)
	}, func(err error) kmsg.Response {
		for i := range asked {
			asked[i].err = err
		}
		return answer(asked)
	})
}

// alterConfigs judges alterations, and makes those that are right unless they are only to be validated. Each succeeds
// or fails by itself.
func (h *Handlers) alterConfigs(ctx context.Context, asked []alteration, validate bool) {
	img := h.Metadata.Image()
	cmd := &metadata.AlterTopicConfigs{Request: requestID(ctx)}
	named := make(map[resource]int, len(asked))
	for i := range asked {
		named[asked[i].resource]++
	}
	var at []int
	for i := range asked {
		a := &asked[i]
		if named[a.resource] > 1 {
			a.err = refuse(kerr.InvalidRequest, "the request names this resource more than once")
			continue
		}
		change, err := h.planAlteration(img, a)
		if err != nil {
			a.err = err
			continue
		}
		if len(change.Set)+len(change.Remove) > 0 {
			at = append(at, i)
			cmd.Topics = append(cmd.Topics, change)
		}
	}
	if validate || len(cmd.Topics) == 0 {
		return
	}
	res, err := h.propose(ctx, cmd)
	for i, n := range at {
		if asked[n].err = err; err == nil {
			asked[n].err = itemError(res, i)
		}
	}
}

func (h *Handlers) planAlteration(img *metadata.Image, a *alteration) (metadata.TopicConfigChange, error) {
	var change metadata.TopicConfigChange
	switch {
	case a.kind == kmsg.ConfigResourceTypeBroker:
		return change, refuse(kerr.InvalidRequest, "a node takes its settings from its configuration file and its environment; change them there and restart it")
	case a.kind != kmsg.ConfigResourceTypeTopic:
		return change, resourceUnknown(a.kind)
	case a.name == "":
		return change, refuse(kerr.InvalidRequest, "the default of all topics is set in the configuration file")
	}
	seen := make(map[string]bool, len(a.edits))
	for _, e := range a.edits {
		if seen[e.name] {
			return change, refuse(kerr.InvalidRequest, "%q is changed more than once", e.name)
		}
		seen[e.name] = true
		if e.value == nil && e.op != kmsg.IncrementalAlterConfigOpDelete {
			return change, refuse(kerr.InvalidRequest, "%q has a null value", e.name)
		}
	}
	t, err := describable(img, a.name)
	if err != nil {
		return change, err
	}
	change.Topic, change.Set = t.ID, map[string]string{}
	for _, e := range a.edits {
		if err := h.applyEdit(t, &change, e); err != nil {
			return change, err
		}
	}
	if a.replace {
		for name := range t.Configs {
			if _, kept := change.Set[name]; !kept {
				change.Remove = append(change.Remove, name)
			}
		}
		slices.Sort(change.Remove)
	}
	maps.DeleteFunc(change.Set, func(name, value string) bool { was, set := t.Configs[name]; return set && was == value })
	if err := h.alterRecords(t, &change, a.forced); err != nil {
		return change, err
	}
	return change, metadata.CheckLevel(img.Level(), change.NeedsLevel())
}

// applyEdit adds one edit to a change.
func (h *Handlers) applyEdit(t *metadata.Topic, change *metadata.TopicConfigChange, e edit) error {
	if e.op == kmsg.IncrementalAlterConfigOpDelete { // of an unknown setting too: there is nothing to remove
		if _, set := t.Configs[e.name]; set {
			change.Remove = append(change.Remove, e.name)
		}
		return nil
	}
	s, known := metadata.LookupSetting(e.name)
	if !known {
		return fmt.Errorf("%w: %q is no setting of topics", metadata.ErrInvalidConfig, e.name)
	}
	value := *e.value
	switch e.op {
	case kmsg.IncrementalAlterConfigOpSet:
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		if s.Type != metadata.TypeList {
			return fmt.Errorf("%w: %s is no list", metadata.ErrInvalidConfig, e.name)
		}
		present := metadata.SplitList(h.describeSetting(s, t.Configs, 0).value)
		given := metadata.SplitList(value)
		if e.op == kmsg.IncrementalAlterConfigOpAppend {
			present = append(present, given...)
		} else {
			present = slices.DeleteFunc(present, func(v string) bool { return slices.Contains(given, v) })
		}
		value = strings.Join(metadata.SplitList(strings.Join(present, ",")), ",")
	default:
		return refuse(kerr.InvalidRequest, "operation %d is unknown", int8(e.op))
	}
	if _, err := s.Accept(value); err != nil {
		return err
	}
	change.Set[e.name] = value
	return nil
}
