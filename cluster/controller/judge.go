package controller

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"cordwood/fsm/metadata"
)

const (
	sessionTick   = 500 * time.Millisecond // longest sleep of the session loop: how it sees that this process stood still
	stallNoticed  = 250 * time.Millisecond // a wake later than this is time in which this process did not run
	judgeAgain    = 250 * time.Millisecond // between two looks at a broker that a dial told nothing of
	refusedWithin = 300 * time.Millisecond // two refused dials within this are a dead process
	secondDial    = 100 * time.Millisecond // after the first refused one
)

// sessionKeeper runs the session table: one mutex, one loop that wakes at the next deadline, and one short-lived
// goroutine for every broker that has lost its session connection and is being dialled.
type sessionKeeper struct {
	r     *reign
	poked chan struct{}

	mu      sync.Mutex // guards what follows; never held over a dial or a proposal
	table   *sessionTable
	judging map[int32]int64 // broker epoch by node being dialled
	conns   map[int32]sessionConn
	number  int64
}

// sessionConn is the connection that a broker's heartbeats come over.
type sessionConn struct {
	closed <-chan struct{}
	number int64
	forget context.CancelFunc // ends the goroutine that watches it
}

func newSessionKeeper(r *reign) *sessionKeeper {
	return &sessionKeeper{
		r: r, poked: make(chan struct{}, 1), table: newSessionTable(r.c.opt.SessionTimeout),
		judging: map[int32]int64{}, conns: map[int32]sessionConn{},
	}
}

func (k *sessionKeeper) poke() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// takeOver gives every broker one full session timeout, the former raft leader what is left of its own, and dials all
// that the metadata has alive.
func (k *sessionKeeper) takeOver() {
	now := time.Now()
	image := k.r.c.Image()
	k.mu.Lock()
	k.table.sync(image, now)
	if node, contact := k.r.c.leaders.last(); node != metadata.NoNode && node != k.r.c.opt.NodeID {
		k.table.countFrom(node, contact)
	}
	k.mu.Unlock()
	for b := range image.Brokers() {
		if b.Alive() && b.ID != k.r.c.opt.NodeID {
			k.judge(b.ID, b.Epoch)
		}
	}
}

// loop fences who is lost, as soon as it is known.
func (k *sessionKeeper) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	planned := time.Now()
	for {
		select {
		case <-k.r.ctx.Done():
			return
		case <-k.poked:
		case <-timer.C:
		}
		now := time.Now()
		k.mu.Lock()
		if late := now.Sub(planned); late > stallNoticed {
			k.table.stalled(late)
			k.r.log.Info("this process stood still; broker sessions are prolonged", "by", late.Round(time.Millisecond))
		}
		k.table.sync(k.r.c.Image(), now)
		lost := k.table.due(now)
		k.mu.Unlock()
		if len(lost) > 0 {
			k.fence(lost)
		}
		k.mu.Lock()
		next := k.table.next()
		k.mu.Unlock()
		now = time.Now()
		sleep := sessionTick
		if !next.IsZero() {
			sleep = max(0, min(sleep, next.Sub(now)))
		}
		planned = now.Add(sleep)
		timer.Reset(sleep)
	}
}

// fence proposes one command for all that are lost. What fails is due again.
func (k *sessionKeeper) fence(lost []lostBroker) {
	cmd := &metadata.FenceBrokers{}
	for i, b := range lost {
		cmd.Brokers = append(cmd.Brokers, b.BrokerEpoch)
		if i > 0 {
			cmd.Reason += "; "
		}
		cmd.Reason += "node " + strconv.Itoa(int(b.ID)) + ": " + b.Reason
	}
	begin := time.Now()
	_, err := k.r.c.apply(k.r.ctx, cmd)
	if err != nil {
		k.r.log.Warn("lost brokers not fenced yet", "reason", cmd.Reason, "err", err)
		return
	}
	k.r.c.metrics.fencings.Add(float64(len(lost)))
	k.r.log.Warn("brokers fenced", "reason", cmd.Reason, "took", time.Since(begin).Round(time.Millisecond))
}

// heartbeat notes a sign of life of a broker over the connection that closed belongs to. False: the epoch is not current.
func (k *sessionKeeper) heartbeat(id int32, epoch int64, closed <-chan struct{}) bool {
	now := time.Now()
	image := k.r.c.Image()
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.table.sessions[id]; s == nil || s.epoch != epoch {
		k.table.sync(image, now)
	}
	if s := k.table.sessions[id]; s == nil || s.epoch != epoch {
		return false
	}
	conn, ok := k.conns[id]
	if !ok || conn.closed != closed {
		if ok {
			conn.forget()
		}
		k.number++
		ctx, forget := context.WithCancel(k.r.ctx)
		conn = sessionConn{closed: closed, number: k.number, forget: forget}
		k.conns[id] = conn
		if closed != nil {
			k.r.start(func() { k.watch(ctx, id, epoch, conn) })
		}
	}
	return k.table.heartbeat(id, epoch, conn.number, now)
}

// watch waits for the end of a session connection and dials its broker then.
func (k *sessionKeeper) watch(ctx context.Context, id int32, epoch int64, conn sessionConn) {
	defer conn.forget()
	select {
	case <-ctx.Done():
		return
	case <-conn.closed:
	}
	k.mu.Lock()
	if c := k.conns[id]; c.number == conn.number {
		delete(k.conns, id)
	}
	// The connection outlives a registration: whoever the session is of now has lost it.
	if s := k.table.sessions[id]; s != nil {
		epoch = s.epoch
	}
	doubt := k.table.closed(id, epoch, conn.number)
	k.mu.Unlock()
	if doubt {
		k.judge(id, epoch)
	}
}

// hint takes gossip's word that a node may be dead: a reason to dial it, if it has no session connection.
func (k *sessionKeeper) hint(id int32) {
	if b := k.r.c.Image().Broker(id); b.Alive() {
		k.judge(id, b.Epoch)
	}
}

// judge begins dialling a broker, unless that is going on.
func (k *sessionKeeper) judge(id int32, epoch int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.judging[id] == epoch || !k.table.doubtful(id, epoch) || k.r.ctx.Err() != nil {
		return
	}
	k.judging[id] = epoch
	k.r.start(func() { k.dialUntilJudged(id, epoch) })
}

// dialUntilJudged dials a broker again and again until its host has refused twice within 300 ms, it has a session
// connection again, or its session is over otherwise.
func (k *sessionKeeper) dialUntilJudged(id int32, epoch int64) {
	defer func() {
		k.mu.Lock()
		if k.judging[id] == epoch {
			delete(k.judging, id)
		}
		k.mu.Unlock()
	}()
	for {
		begin := time.Now()
		dead := k.refusesTwice(id, begin)
		k.mu.Lock()
		if dead && k.table.refused(id, epoch, begin) {
			k.mu.Unlock()
			k.poke()
			return
		}
		doubt := k.table.doubtful(id, epoch)
		k.mu.Unlock()
		if !doubt || !k.r.pause(judgeAgain) {
			return
		}
	}
}

// refusesTwice says that the broker's host refused two dials that were both over within 300 ms.
func (k *sessionKeeper) refusesTwice(id int32, begin time.Time) bool {
	b := k.r.c.Image().Broker(id)
	if b == nil {
		return false
	}
	e, ok := b.Listeners[k.r.c.opt.InterBrokerListener]
	if !ok {
		return false
	}
	address := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	ctx, cancel := context.WithDeadline(k.r.ctx, begin.Add(refusedWithin))
	defer cancel()
	return k.refuses(ctx, address) && k.r.pause(secondDial) && k.refuses(ctx, address)
}

// refuses says that a host answered a dial with a refusal: it is there, and nobody listens.
func (k *sessionKeeper) refuses(ctx context.Context, address string) bool {
	conn, err := k.r.c.opt.Dial(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
