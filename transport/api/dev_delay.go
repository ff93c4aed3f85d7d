package api

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
)

// longestFetchDelay bounds the delay: a longer one would look like a dead node.
const longestFetchDelay = 10 * time.Second

// delaysFetches says that a request is about the one setting of a node that may be altered, on a node that allows it.
// Others are refused on the usual road.
func (h *Handlers) delaysFetches(asked []alteration) bool {
	return h.Node.DelayFetches != nil && len(asked) == 1 && asked[0].kind == kmsg.ConfigResourceTypeBroker &&
		len(asked[0].edits) == 1 && asked[0].edits[0].name == metadata.DevFetchDelay
}

// delayFetches takes the setting. It is this node's own and lasts until it is set again or the node ends.
func (h *Handlers) delayFetches(a *alteration, validate bool) error {
	if err := h.namesThisNode(a.name); err != nil {
		return err
	}
	e, millis := a.edits[0], int64(0)
	switch {
	case e.op == kmsg.IncrementalAlterConfigOpDelete:
	case e.op != kmsg.IncrementalAlterConfigOpSet || e.value == nil:
		return refuse(kerr.InvalidConfig, "%s can be set and deleted", e.name)
	default:
		n, err := strconv.ParseInt(*e.value, 10, 64)
		if err != nil || n < 0 || n > longestFetchDelay.Milliseconds() {
			return refuse(kerr.InvalidConfig, "%s: %q: must be a number of milliseconds from 0 to %d", e.name, *e.value, longestFetchDelay.Milliseconds())
		}
		millis = n
	}
	if !validate {
		h.Node.DelayFetches(time.Duration(millis) * time.Millisecond)
	}
	return nil
}
