package broker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAJoinNameThatDoesNotResolveStopsANodeWithoutACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		join := []string{"10.0.0.1:7946", "[::1]:7946", "n1:7946", "n2:7946"}
		asked := map[string]int{}
		lookup := func(_ context.Context, host string) error {
			asked[host]++
			if host == "n2" {
				return &net.DNSError{Name: host, Err: "no such host", IsNotFound: true}
			}
			return nil
		}
		found := false
		err := joinNames(t.Context(), join, func() bool { return found }, time.Millisecond, lookup, logger)
		require.ErrorContains(t, err, "cluster.join n2:7946: the name does not resolve here (no such host)")
		require.ErrorContains(t, err, "start that node, or write its address")
		require.NotContains(t, err.Error(), "\n")
		var dns *net.DNSError
		require.True(t, errors.As(err, &dns), "the cause is kept")
		require.Equal(t, map[string]int{"n1": 2, "n2": 2}, asked, "addresses are not looked up")
		require.Contains(t, log.String(), "does not resolve yet")

		found = true
		log.Reset()
		require.NoError(t, joinNames(t.Context(), join, func() bool { return found }, 0, lookup, logger), "there is a cluster without that node")
		require.Contains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "n2:7946")
	})
}

func TestAJoinNameMayAppearWhileANodeStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		lookup := func(context.Context, string) error {
			if tries++; tries < 3 {
				return &net.DNSError{Err: "no such host"}
			}
			return nil
		}
		require.NoError(t, joinNames(t.Context(), []string{"n1:7946"}, func() bool { return false }, time.Minute, lookup, slog.New(slog.DiscardHandler)))
		require.Equal(t, 3, tries)
	})
}
