package broker

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/cluster/controller"
	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
	"cordwood/transport"
	"cordwood/transport/api"
)

// metadataRoad is the handlers' view of the metadata: this node's image, and the controller wherever it is.
type metadataRoad struct {
	*controller.Controller
	up *upstream
}

// Forward implements api.Metadata.
func (m *metadataRoad) Forward(ctx context.Context, r *transport.Request) (kmsg.Response, error) {
	node, err := m.up.to()
	if err != nil {
		return nil, err
	}
	if node == m.up.node {
		return nil, metadata.ErrNotController // raft's leader, but not past its barrier yet
	}
	var id metadata.RequestID
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("request id: %w", err)
	}
	env := api.NewEnvelope(r, id)
	env.SetVersion(envelopeVersion)
	resp, err := typed[*kmsg.EnvelopeResponse](m.up.ask(ctx, node, purposeForward, env))
	if err != nil {
		if unknownOutcome(err) {
			return nil, fmt.Errorf("%w: %w", metadata.ErrOutcomeUnknown, err)
		}
		return nil, fmt.Errorf("%w: %w", metadata.ErrNoController, err)
	}
	answer, index, err := api.OpenEnvelope(r, resp)
	if err != nil {
		return nil, err
	}
	if err := m.WaitIndex(ctx, index); err != nil {
		return nil, fmt.Errorf("%w: done, but not seen by this node in time: %w", metadata.ErrOutcomeUnknown, err)
	}
	return answer, nil
}

// controllerRoad gives the controller the handlers' types.
type controllerRoad struct{ *controller.Controller }

// Quorum implements api.Controller.
func (c controllerRoad) Quorum() api.Quorum {
	q := c.Controller.Quorum()
	return api.Quorum{Leader: q.Leader, Term: q.Term, HighWatermark: q.HighWatermark, Voters: servers(q.Voters), Observers: servers(q.Observers)}
}

func servers(in []controller.QuorumReplica) []api.QuorumReplica {
	out := make([]api.QuorumReplica, len(in))
	for i, r := range in {
		out[i] = api.QuorumReplica(r)
	}
	return out
}

// restartClass tells what the FSM decided about this registration, from the image that shows it.
func restartClass(image *metadata.Image, node int32, epoch int64, clean bool) metadata.RestartClass {
	me := image.Broker(node)
	switch {
	case me == nil || me.LossMedia >= epoch:
		return metadata.RestartLossyMedia
	case me.LossPower >= epoch:
		return metadata.RestartLossyPower
	case clean:
		return metadata.RestartClean
	}
	return metadata.RestartProcessCrash
}

// incarnation reads the id of a process out of session.json, which this node wrote itself. In a registration it is 16
// bytes, in the metadata a UUID's usual text.
func incarnation(s string) (uuid.UUID, error) {
	id, err := record.ParseTopicID(s)
	if err != nil {
		return uuid.UUID{}, fmt.Errorf("session.json: incarnation: %w", err)
	}
	return uuid.UUID(id), nil
}
