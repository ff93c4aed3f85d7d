//go:build !librdkafka || !cgo

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABinaryWithoutLibrdkafkaSaysHowToGetOneThatHasIt(t *testing.T) {
	for _, name := range []string{"librdkafka", "both"} {
		var out, errs bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), []string{"torture", "-q", "--client", name}, strings.NewReader(""), &out, &errs))
		require.Contains(t, errs.String(), "--client "+name+": this binary has no librdkafka: build it with -tags librdkafka and CGO_ENABLED=1")
		require.Empty(t, out.String())
	}
}
