package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/integration/history"
)

// grouped are the requests that consumer groups need.
var grouped = []int16{kmsg.FindCoordinator.Int16(), kmsg.JoinGroup.Int16(), kmsg.SyncGroup.Int16(), kmsg.Heartbeat.Int16(),
	kmsg.LeaveGroup.Int16(), kmsg.OffsetFetch.Int16(), kmsg.OffsetCommit.Int16()}

// tryJoinWithin bounds how long the first group of a cluster may take to give a member what it reads.
const tryJoinWithin = 30 * time.Second

// stayOneIn is how many times a client that is assigned what it reads changes that while one that subscribes does it once:
// each time is a rebalance of all.
const stayOneIn = 4

// TrySubscription says whether clients of a library, named as in RunOptions, can subscribe: one of them knows how, and every
// node knows the requests of consumer groups. Then one member joins a group and leaves it; that it is given nothing to read is
// an error.
func TrySubscription(ctx context.Context, seeds []string, client string, h *history.Header) (bool, error) {
	libraries, err := librariesOf(client)
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(libraries, func(l library) bool { _, can := l.(subscriber); return can })
	if at < 0 {
		return false, nil
	}
	c, err := kgo.NewClient(franz{}.options(seeds, "torture-try")...)
	if err != nil {
		return false, err
	}
	known, err := knows(ctx, c, grouped)
	c.Close()
	if err != nil || !known {
		return false, err
	}
	m, err := libraries[at].(subscriber).member(memberOptions{seeds: seeds, id: "torture-try", group: groupOf(h) + "-try", topics: []string{h.Topics[0].Name}})
	if err != nil {
		return false, err
	}
	defer m.close()
	ctx, cancel := context.WithTimeout(ctx, tryJoinWithin)
	defer cancel()
	var last error
	for len(m.moved()) == 0 {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, pollWithin)
			defer cancel()
			return m.poll(ctx, pollMost, func(read) {})
		}()
		if kerr.IsRetriable(err) { // a cluster that had no group yet has its coordinators to find first; the client asks again
			err, last = nil, err
		}
		if err == nil && ctx.Err() != nil {
			err = cmp.Or(last, ctx.Err())
		}
		if err != nil {
			return false, fmt.Errorf("the cluster knows the requests of consumer groups, but none gives its only member anything: %w", err)
		}
	}
	return true, nil
}

// groupOf names the group of a run. It is that of no other run, also of the same seed, since it begins where it has committed.
func groupOf(h *history.Header) string {
	return fmt.Sprintf("torture-%d-%x", h.Seed, h.Began.UnixNano())
}

// subscribes says whether the clients of a slot subscribe: every third does, from the second on, if it can.
func (r *Run) subscribes(slot int) bool {
	_, can := r.libraryOf(slot).(subscriber)
	return r.opt.Header.Subscriptions && can && slot%3 == 1
}

// subscribe reads, with the others of its group, the topics of an operation's keys from now on, and makes all keys of these
// topics those of the operation. It is a new member: nothing goes on where this client was.
func (p *process) subscribe(op *history.Op) error {
	if p.reader != nil {
		p.reader.close()
		p.reader = nil
	}
	for key := range p.next {
		op.Moved = append(op.Moved, key)
	}
	slices.Sort(op.Moved)
	clear(p.next)
	h, drawn := p.run.opt.Header, map[int]bool{}
	var topics []string
	for _, key := range op.Keys {
		if t := h.Keys[key].Topic; !drawn[t] {
			drawn[t] = true
			topics = append(topics, h.Topics[t].Name)
		}
	}
	op.Keys = nil
	for key, k := range h.Keys {
		if drawn[k.Topic] {
			op.Keys = append(op.Keys, key)
		}
	}
	m, err := p.library.(subscriber).member(memberOptions{seeds: p.run.opt.Seeds, id: p.name(), group: groupOf(h), topics: topics})
	if err != nil {
		return err
	}
	p.reader, p.moved = m, nil
	return nil
}

// noteMoved notes in an operation what rebalances moved, before a poll and after it. What was moved while a poll went on counts
// for the next one too: what this one gave may be from before the move, or from after it.
func (p *process) noteMoved(op *history.Op, before bool) {
	m, can := p.reader.(member)
	if !can {
		return
	}
	var now []int
	for _, at := range m.moved() {
		if key, ours := p.run.keyOf[at]; ours {
			now = append(now, key)
		}
	}
	if before {
		now, p.moved = append(now, p.moved...), nil
		for _, key := range now {
			delete(p.next, key)
		}
	} else {
		p.moved = now
	}
	if op.Moved = append(op.Moved, now...); len(op.Moved) > 1 {
		slices.Sort(op.Moved)
		op.Moved = slices.Compact(op.Moved)
	}
}

// franzMember is a consumer of franz-go in a group of the classic protocol, whose rebalances take away only what another gets.
type franzMember struct {
	franzConsumer
	mu    sync.Mutex // guards moves
	moves map[place]bool
}

func (f franz) member(o memberOptions) (member, error) {
	m := &franzMember{moves: map[place]bool{}}
	note := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { m.note(parts) }
	var err error
	m.client, err = kgo.NewClient(f.options(o.seeds, o.id, append(f.reading(), kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topics...),
		kgo.SessionTimeout(sessionWithin), kgo.RebalanceTimeout(joinWithin), kgo.HeartbeatInterval(heartbeatEach), kgo.AutoCommitInterval(commitEach), kgo.RetryTimeout(requestWithin),
		kgo.OnPartitionsAssigned(note), kgo.OnPartitionsRevoked(note), kgo.OnPartitionsLost(note))...)...)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *franzMember) note(parts map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, list := range parts {
		for _, p := range list {
			m.moves[place{topic, p}] = true
		}
	}
}

// moved implements member. franz-go calls back before it fetches anything of what it was given.
func (m *franzMember) moved() []place {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []place
	for at := range m.moves {
		all = append(all, at)
	}
	clear(m.moves)
	return all
}

// close leaves the group, so that the others need not wait for the end of its session. franz-go ends a join that is under way
// before: it waits for about joinWithin, and for requestWithin for the answer of a coordinator that is not there.
func (m *franzMember) close() { ended(m.client.Close) }
