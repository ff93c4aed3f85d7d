package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/metadata"
	"cordwood/transport/api/apitest"
)

func TestReplicationIsDelayedOnlyOnANodeInDevelopmentModeAndByItself(t *testing.T) {
	w := apitest.New(t, 1, 2)
	ask := func(node, name, value string) *kmsg.IncrementalAlterConfigsResponseResource {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		x := kmsg.NewIncrementalAlterConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeBroker, node
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		x.Configs = append(x.Configs, c)
		req.Resources = append(req.Resources, x)
		return &w.Call(1, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	}
	x := ask("1", metadata.DevFetchDelay, "40")
	require.EqualValues(t, 42, x.ErrorCode)
	require.Contains(t, *x.ErrorMessage, "configuration file")

	delayed := time.Duration(-1)
	w.Handlers.Node.DelayFetches = func(d time.Duration) { delayed = d }
	require.Zero(t, ask("1", metadata.DevFetchDelay, "40").ErrorCode)
	require.Equal(t, 40*time.Millisecond, delayed)
	require.EqualValues(t, 40, ask("1", metadata.DevFetchDelay, "60000").ErrorCode)
	require.EqualValues(t, 40, ask("1", metadata.DevFetchDelay, "-1").ErrorCode)
	require.EqualValues(t, 42, ask("2", metadata.DevFetchDelay, "1").ErrorCode, "of another node")
	require.EqualValues(t, 42, ask("1", "log.retention.ms", "1").ErrorCode, "any other setting")
	require.Equal(t, 40*time.Millisecond, delayed)
	require.Zero(t, ask("1", metadata.DevFetchDelay, "0").ErrorCode)
	require.Zero(t, delayed)
}
