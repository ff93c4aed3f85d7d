package controller

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"cordwood/fsm/metadata"
)

// codes maps the refusals that a request between nodes can meet to Kafka's codes. Clients never see these answers.
var codes = []struct {
	err  error
	code int16
}{
	{metadata.ErrNotController, kerr.NotController.Code},
	{metadata.ErrNoController, kerr.NotController.Code},
	{metadata.ErrOutcomeUnknown, kerr.RequestTimedOut.Code},
	{metadata.ErrStaleBrokerEpoch, kerr.StaleBrokerEpoch.Code},
	{metadata.ErrLateIncarnation, kerr.StaleBrokerEpoch.Code},
	{metadata.ErrBrokerNotRegistered, kerr.BrokerIDNotRegistered.Code},
	{metadata.ErrDuplicateBroker, kerr.DuplicateBrokerRegistration.Code},
	{metadata.ErrUnknownTopicID, kerr.UnknownTopicID.Code},
	{metadata.ErrUnknownTopic, kerr.UnknownTopicOrPartition.Code},
	{metadata.ErrUnknownPartition, kerr.UnknownTopicOrPartition.Code},
	{metadata.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch.Code},
	{metadata.ErrInvalidUpdate, kerr.InvalidUpdateVersion.Code},
	{metadata.ErrIneligibleReplica, kerr.IneligibleReplica.Code},
	{metadata.ErrInvalidRequest, kerr.InvalidRequest.Code},
	{metadata.ErrLevel, kerr.UnsupportedVersion.Code},
}

// code gives Kafka's code of a refusal, 0 of none.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return kerr.UnknownServerError.Code
}
