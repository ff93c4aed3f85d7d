package workload

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAClientThatDoesNotEndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		require.False(t, ended(func() { <-never }))
		close(never)
		require.True(t, ended(func() {}))
	})
}
