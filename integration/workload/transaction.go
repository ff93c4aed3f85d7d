package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/integration/history"
)

// transactional are the requests that transactions need.
var transactional = []int16{kmsg.FindCoordinator.Int16(), kmsg.InitProducerID.Int16(), kmsg.AddPartitionsToTxn.Int16(), kmsg.EndTxn.Int16()}

// TryTransaction says whether a cluster has transactions: every node knows their requests. Then one is done and aborted, on the
// first topic of the header whose producers wait for the commit; that it does not work is an error.
func TryTransaction(ctx context.Context, seeds []string, h *history.Header) (bool, error) {
	at := slices.IndexFunc(h.Keys, func(k history.Key) bool { return h.Topics[k.Topic].Acks == "all" })
	if at < 0 {
		return false, nil
	}
	client, err := kgo.NewClient(franz{}.options(seeds, "torture-try")...)
	if err != nil {
		return false, err
	}
	defer client.Close()
	if known, err := knows(ctx, client, transactional); err != nil || !known {
		return false, err
	}
	p, err := franz{}.producer(producerOptions{seeds: seeds, id: "torture-try", acks: "all", transactional: fmt.Sprintf("torture-%d-try", h.Seed)})
	if err != nil {
		return false, err
	}
	defer p.close()
	err = p.begin(ctx)
	if err == nil {
		k := h.Keys[at]
		d := p.send(ctx, place{h.Topics[k.Topic].Name, k.Partition}, []byte("never committed"))
		_, ended := p.end(ctx, false)
		err = errors.Join(d.err, ended)
	}
	if err != nil {
		return false, fmt.Errorf("the cluster knows the requests of transactions, but none can be done: %w", err)
	}
	return true, nil
}

// knows says whether every node of a cluster knows all of the requests. One that does not answer is an error.
func knows(ctx context.Context, client *kgo.Client, requests []int16) (bool, error) {
	nodes, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("ask which requests the cluster knows: %w", err)
	}
	for _, node := range nodes {
		if node.Err != nil {
			return false, fmt.Errorf("ask node %d which requests it knows: %w", node.NodeID, node.Err)
		}
		for _, key := range requests {
			if _, known := node.KeyMaxVersion(key); !known {
				return false, nil
			}
		}
	}
	return true, nil
}

// transaction is a few polls and sends, in any order, of which the sends are committed together; now and then they are aborted
// on purpose, but not by who subscribes: its client is given up with it, and its whole group would rebalance all the time. The
// transaction's id is that of the slot: a client that left one open is fenced by the next.
func (p *process) transaction(ctx context.Context, op *history.Op) {
	err := p.beginTransaction(ctx)
	if err != nil {
		op.Type, op.Error = history.Fail, err.Error()
		return
	}
	defer func() { p.open = nil }()
	good := true
	for range 2 + p.rng.IntN(3) {
		if p.rng.IntN(2) == 0 {
			good = p.polls(ctx, op)
		} else {
			good = p.sends(ctx, op, p.run.awaited[p.rng.IntN(len(p.run.awaited))])
		}
		if !good {
			break
		}
	}
	commit := good && (p.subscribes || p.rng.IntN(abortOneIn) > 0)
	if good && !commit {
		op.Error = "aborted on purpose"
	}
	o, err := p.open.end(ctx, commit)
	if err != nil {
		op.Error = strings.TrimPrefix(op.Error+"; "+err.Error(), "; ")
	}
	op.Type = typeOf(o)
	for _, m := range op.Mops {
		if m.Send != nil && op.Type == history.OK {
			p.run.reached(m.Send.Key, m.Send.Offset)
		}
	}
}

// abortOneIn is how many transactions there are to one that is aborted on purpose.
const abortOneIn = 16

func (p *process) beginTransaction(ctx context.Context) (err error) {
	if p.txns == nil {
		p.txns, err = p.library.producer(producerOptions{seeds: p.run.opt.Seeds, id: p.name(), acks: "all",
			transactional: fmt.Sprintf("torture-%d-%d", p.run.opt.Header.Seed, p.slot)})
		if err != nil {
			p.txns = nil
			return err
		}
	}
	if err = p.txns.begin(ctx); err == nil {
		p.open = p.txns
	}
	return err
}

// typeOf is what the outcome of a transaction makes of its operation.
func typeOf(o outcome) history.Type {
	switch o {
	case committed:
		return history.OK
	case aborted:
		return history.Fail
	}
	return history.Info
}
