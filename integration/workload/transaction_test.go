package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"cordwood/integration/history"
)

func TestOnlyACommitThatWasNeverAskedForIsCertainlyNone(t *testing.T) {
	for _, x := range []struct {
		err  error
		want history.Type
	}{
		{nil, history.OK}, {fmt.Errorf("end: %w", kerr.OperationNotAttempted), history.Fail},
		{kerr.InvalidTxnState, history.Info}, {kerr.InvalidProducerEpoch, history.Info}, {kerr.TransactionAbortable, history.Info}, {errors.New("connection reset"), history.Info},
	} {
		if got := typeOf(committedBy(x.err)); got != x.want {
			t.Errorf("%v: %s", x.err, got)
		}
	}
}

// kept is a Sink that keeps operations.
type kept struct {
	nowhere
	mu  sync.Mutex
	ops []history.Op
}

func (k *kept) Op(o history.Op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ops = append(k.ops, o)
}

func fakeHeader() *history.Header {
	return &history.Header{Version: history.Version, Began: time.Now(), Seed: 5, Nodes: 1, Keys: []history.Key{{}},
		Topics: []history.Topic{{Name: "t", Replicas: 1, MinISR: 1, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "all"}}}
}

func TestAClusterWithoutTheirRequestsHasNoTransactions(t *testing.T) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(transactional[2], -1)
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.MaxVersions(versions))
	require.NoError(t, err)
	defer fake.Close()
	has, err := TryTransaction(t.Context(), fake.ListenAddrs(), fakeHeader())
	require.NoError(t, err)
	require.False(t, has)
}

// TestTransactionsAreWholeOrNotThere with what was aborted, and control records in the log that are no records left out.
func TestTransactionsAreWholeOrNotThere(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer fake.Close()
	h, sink := fakeHeader(), &kept{}
	h.Transactions, err = TryTransaction(t.Context(), fake.ListenAddrs(), h)
	require.NoError(t, err)
	require.True(t, h.Transactions)
	for _, l := range librariesHere(t) {
		r, err := NewRun(RunOptions{Seeds: fake.ListenAddrs(), Processes: 1, Sink: sink, Header: h})
		require.NoError(t, err)
		r.libraries = []library{l}
		r.keys[0].values.Store(int64(1000 * len(sink.ops))) // values are told apart
		r.ids.Store(int64(len(sink.ops)))
		rng := rand.New(rand.NewPCG(5, 5))
		p := r.newProcess(0, rng)
		require.NoError(t, p.assign([]int{0}, nil))
		for range 60 {
			op := history.Op{Process: p.id, F: history.Txn, Type: history.OK, Start: r.now()}
			p.transaction(t.Context(), &op)
			p.done(&op)
			require.NotEqual(t, history.Info, op.Type, op.Error)
			if op.Type != history.OK {
				require.Equal(t, "aborted on purpose", op.Error)
				p.close()
				p = r.newProcess(0, rng)
				require.NoError(t, p.assign([]int{0}, nil))
			}
		}
		p.close()
		require.NoError(t, r.Finish(t.Context(), time.Minute, false))

		last := r.newProcess(0, rng)
		require.NoError(t, last.assign([]int{0}, nil))
		for !last.atEnds(t.Context()) { // the last in the log is a control record, which a poll must get past
			require.Less(t, time.Since(h.Began), time.Minute)
			_, err := last.poll(t.Context())
			require.NoError(t, err)
		}
		last.close()
	}
	types := map[history.Type]int{}
	for _, op := range sink.ops {
		if op.F == history.Txn {
			types[op.Type]++
		}
	}
	require.NotZero(t, types[history.OK])
	require.NotZero(t, types[history.Fail])
	all := &history.History{Header: *h, Ops: sink.ops}
	require.NoError(t, all.Validate())
	report := history.Check(all)
	for _, a := range report.Anomalies {
		require.Equal(t, a.Count, a.Allowed, "%+v", a)
	}
	require.Equal(t, history.VerdictOK, report.Verdict)
}

// librariesHere are those of this binary.
func librariesHere(t *testing.T) []library {
	t.Helper()
	if linked == nil {
		return []library{franz{}}
	}
	return []library{franz{}, linked}
}
