package api

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write generated documentation")

// newerThanServed are the versions that kmsg can encode and this node does not serve yet. When kmsg learns more, this
// test says so, and somebody decides.
var newerThanServed = map[kmsg.Key]string{
	kmsg.Produce: "12 and 13 come with transactions version 2",
}

func TestTheTableServesWhatKmsgEncodes(t *testing.T) {
	last := int16(-1)
	for _, r := range table {
		require.Greater(t, r.key.Int16(), last, "keys must rise: clients are told in this order")
		last = r.key.Int16()
		most := kmsg.RequestForKey(r.key.Int16()).MaxVersion()
		require.LessOrEqual(t, r.min, r.max, r.key.Name())
		require.LessOrEqual(t, r.max, most, r.key.Name())
		if why, ok := newerThanServed[r.key]; ok {
			require.Less(t, r.max, most, "%s: %s no longer holds", r.key.Name(), why)
		} else {
			require.Equal(t, most, r.max, "%s: kmsg encodes up to version %d", r.key.Name(), most)
		}
		require.NotNil(t, r.handle, r.key.Name())
	}
}

// Produce 12 and above add partitions to transactions on the server: they are tied to transaction.version 2.
func TestProduceStaysAt11WithoutTransactionsVersion2(t *testing.T) {
	require.EqualValues(t, 11, rowOf(kmsg.Produce.Int16()).max)
	for _, k := range []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.AddPartitionsToTxn} {
		require.Nil(t, rowOf(k.Int16()), "transactions appeared: tie their versions to transaction.version")
	}
}

const (
	protocolPage = "../../docs/protocol.md"
	tableBegin   = "<!-- table of APIs: written by go test ./transport/api -update -->\n"
	tableEnd     = "<!-- end of the table -->\n"
)

func apiTable() string {
	var b strings.Builder
	b.WriteString("| key | API | versions | told to clients | where |\n|---|---|---|---|---|\n")
	for i := range table {
		r := &table[i]
		told, where := fmt.Sprintf("%d to %d", r.advertised(), r.max), "every listener"
		if r.internal {
			told, where = "never", "between nodes only"
		}
		fmt.Fprintf(&b, "| %d | %s | %d to %d | %s | %s |\n", r.key, r.key.Name(), r.min, r.max, told, where)
	}
	return b.String()
}

func TestTheProtocolPageHoldsTheTable(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	require.NoError(t, err)
	from := bytes.Index(page, []byte(tableBegin))
	to := bytes.Index(page, []byte(tableEnd))
	require.Positive(t, from, "no place for the table")
	require.Greater(t, to, from, "no end of the table")
	from += len(tableBegin)
	want := string(page[:from]) + "\n" + apiTable() + "\n" + string(page[to:])
	if *update {
		require.NoError(t, os.WriteFile(protocolPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "run go test ./transport/api -run ProtocolPage -update")
}
