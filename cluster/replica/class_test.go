package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/logstore"
)

// TestALossThatNobodyAnsweredForIsTheNextStarts: the process that started after the loss of power was killed before it opened
// its logs, and the one after it is told of a mere crash.
func TestALossThatNobodyAnsweredForIsTheNextStarts(t *testing.T) {
	lives := func(sameBoot ...bool) (s logstore.Session) {
		for _, same := range sameBoot {
			s.Earlier = append(s.Earlier, logstore.EarlierIncarnation{SameBoot: same})
		}
		return s
	}
	require.Equal(t, logstore.LossyPower, sinceOpened(logstore.ProcessCrash, lives(true, false)))
	require.Equal(t, logstore.ProcessCrash, sinceOpened(logstore.ProcessCrash, lives(true, true)))
	require.Equal(t, logstore.ProcessCrash, sinceOpened(logstore.ProcessCrash, lives()))
	require.Equal(t, logstore.Clean, sinceOpened(logstore.Clean, lives(true, false)))
	require.Equal(t, logstore.LossyMedia, sinceOpened(logstore.LossyMedia, lives(false)))
}
