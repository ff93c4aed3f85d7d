package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/cluster/replica"
	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

const (
	// retryPause is the wait before a failed registration or heartbeat is tried again.
	retryPause = 50 * time.Millisecond
	// requestLimit bounds one registration.
	requestLimit = 5 * time.Second
	// heartbeatLimit bounds one heartbeat, far below the session timeout: one that waits for a controller that was cut off
	// or stands still must be given up in time to be heard by the next controller.
	heartbeatLimit = time.Second
)

// silenceLimit is how long a drain goes on without any answer: longer than the next controller takes to be elected.
// Without a majority of the voters nobody can take the leaders, and the last node of a cluster that is being stopped
// would wait in vain.
const silenceLimit = 4 * time.Second

// errReplaced ends a process whose node id and directory were registered by a later one.
var errReplaced = errors.New("a later process of this node has registered; this one ends")

// replicas is what the session tells the controller about, beside that this process lives.
type replicas interface {
	// SessionChanged is signalled when something should not wait for the next interval.
	SessionChanged() <-chan struct{}
	// DrainSession gives damaged replicas, again until a record shows them, and what is told once: certifications and
	// finished changes, for which their leader asks again, and reports that the controller asks for if it misses them.
	DrainSession() replica.SessionNews
	// Reports answers the controller's wish to know the logs of partitions without a leader.
	Reports(ids []record.PartitionID) []metadata.ReplicaReportItem
	// DiskFull says that this node takes no records of clients for want of room.
	DiskFull() bool
	// HandOver makes leaders of this node ready to be succeeded.
	HandOver(items []metadata.Handover)
}

// session is this process's membership in the cluster: its registration and its heartbeats. One goroutine (run) owns it;
// the atomics are for readers.
type session struct {
	up       *upstream
	interval time.Duration
	request  func() (*kmsg.BrokerRegistrationRequest, error) // a fresh copy each time
	log      *slog.Logger

	epoch    atomic.Int64 // broker epoch; 0 before registration
	index    atomic.Uint64
	fenced   atomic.Bool // as the last heartbeat's answer said
	draining atomic.Bool // a controlled shutdown was asked for
	ready    atomic.Bool // the replica manager has started: this node may be unfenced
	offline  atomic.Bool // the only log directory is gone

	begun time.Time
	heard atomic.Int64                      // when the controller last answered a heartbeat: nanoseconds since begun
	last  atomic.Pointer[answeredHeartbeat] // nil: none was answered in this session

	wanted  []record.PartitionID // partitions that the controller asked about; of run
	kick    chan struct{}        // holds one token: send a heartbeat now
	drained chan struct{}        // closed when the controller says that this node leads nothing any more
	once    sync.Once
}

func newSession(up *upstream, interval time.Duration, request func() (*kmsg.BrokerRegistrationRequest, error), log *slog.Logger) *session {
	s := &session{begun: time.Now(), up: up, interval: interval, request: request, log: log, kick: make(chan struct{}, 1), drained: make(chan struct{})}
	s.fenced.Store(true)
	return s
}

// register registers until it succeeds, and returns the broker epoch and the raft index of the registration, which is
// the same number: metadata has to be replayed to it before anything touches data.
func (s *session) register(ctx context.Context) (int64, error) {
	said := ""
	for {
		epoch, err := s.registerOnce(ctx)
		if err == nil {
			s.epoch.Store(epoch)
			return epoch, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if fatal := (refusedError{}); errors.As(err, &fatal) {
			return 0, err
		}
		if text := err.Error(); text != said { // once for each reason, not for each try
			s.log.Info("waiting to register with the controller", "reason", text)
			said = text
		}
		if !pause(ctx, retryPause) {
			return 0, ctx.Err()
		}
	}
}

// refusedError is a registration that will never succeed.
type refusedError struct{ err error }

func (e refusedError) Error() string { return e.err.Error() }
func (e refusedError) Unwrap() error { return e.err }

func (s *session) registerOnce(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := s.request()
	if err != nil {
		return 0, refusedError{err}
	}
	resp, err := s.up.register(ctx, req)
	if err != nil {
		return 0, err
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil:
		return resp.BrokerEpoch, nil
	case errors.Is(err, kerr.StaleBrokerEpoch):
		return 0, refusedError{fmt.Errorf("%w (%w)", errReplaced, err)}
	case errors.Is(err, kerr.InconsistentClusterID):
		return 0, refusedError{fmt.Errorf("the data directory belongs to another cluster: %w", err)}
	default:
		return 0, fmt.Errorf("registration refused: %w", err)
	}
}

// answeredHeartbeat is what the last answered heartbeat tells of this session.
type answeredHeartbeat struct {
	sent   time.Duration // since begun
	fenced bool
	index  uint64 // of the metadata that the controller answered by
}

// lives says that no controller can have fenced this process yet, and names the index of the metadata that the controller
// last answered by. A session counts from when the last answered heartbeat was sent, or from as much earlier as a
// controller may have been deposed without knowing it: timeout is the session's less raft's lease.
func (s *session) lives(timeout time.Duration) (index uint64, ok bool) {
	a := s.last.Load()
	if a == nil || a.fenced || time.Since(s.begun)-a.sent >= timeout {
		return 0, false
	}
	return a.index, true
}

// wake sends a heartbeat soon.
func (s *session) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// drain asks the controller to move leadership away and waits until it has, ctx ends, or no controller has answered for
// silenceLimit.
func (s *session) drain(ctx context.Context) error {
	s.draining.Store(true)
	s.wake()
	began := time.Since(s.begun)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.drained:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("leaders not drained: %w", ctx.Err())
		case <-tick.C:
		}
		if last := max(began, time.Duration(s.heard.Load())); time.Since(s.begun)-last > silenceLimit {
			return fmt.Errorf("leaders not drained: no controller has answered for %v: %w", silenceLimit, metadata.ErrNoController)
		}
	}
}

// run sends heartbeats until ctx ends. It returns an error only for what this process cannot live on with.
func (s *session) run(ctx context.Context, r replicas) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.kick:
		case <-r.SessionChanged():
		}
		next, err := s.beat(ctx, r)
		if err != nil {
			if fatal := (refusedError{}); errors.As(err, &fatal) {
				return err
			}
			if ctx.Err() == nil {
				s.log.Debug("heartbeat failed", "err", err)
			}
			next = retryPause
		}
		timer.Reset(next)
	}
}

// beat sends one heartbeat, takes its answer and says when the next one is due.
func (s *session) beat(ctx context.Context, r replicas) (next time.Duration, err error) {
	var extra metadata.HeartbeatExtra
	news := r.DrainSession()
	extra.Damaged, extra.Certify, extra.Finish, extra.Reports, extra.Ready = news.Damaged, news.Certify, news.Finish, news.Reports, news.Ready
	extra.Full = r.DiskFull()
	if len(s.wanted) > 0 {
		extra.Reports = append(extra.Reports, r.Reports(s.wanted)...)
	}
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID = s.up.node
	req.BrokerEpoch = s.epoch.Load()
	req.CurrentMetadataOffset = int64(s.index.Load())
	req.WantFence = !s.ready.Load() || s.offline.Load()
	req.WantShutdown = s.draining.Load()
	req.UnknownTags.Set(metadata.TagHeartbeat, extra.Encode())
	sent := time.Since(s.begun)
	limited, cancel := context.WithTimeout(ctx, heartbeatLimit)
	resp, err := s.up.heartbeat(limited, req)
	cancel()
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	switch {
	case errors.Is(err, kerr.StaleBrokerEpoch), errors.Is(err, kerr.BrokerIDNotRegistered):
		s.last.Store(nil) // the session that it told of is over
		return s.interval, s.again(ctx)
	case err != nil:
		return 0, err
	}
	s.heard.Store(int64(time.Since(s.begun)))
	if was := s.fenced.Swap(resp.IsFenced); was != resp.IsFenced {
		s.log.Info("fencing changed", "before", was, "after", resp.IsFenced)
	}
	if resp.ShouldShutdown {
		s.once.Do(func() { close(s.drained) })
	}
	return s.answered(sent, resp, r)
}

// answered takes what rides on an answer. A partition that the controller asks about waits for its report: the next
// heartbeat follows at once, or after a pause where the last one could not tell.
func (s *session) answered(sent time.Duration, resp *kmsg.BrokerHeartbeatResponse, r replicas) (next time.Duration, err error) {
	before := len(s.wanted)
	s.wanted = nil
	var decoded error
	resp.UnknownTags.Each(func(tag uint32, b []byte) {
		if tag != metadata.TagHeartbeatAnswer {
			return
		}
		a, err := metadata.DecodeHeartbeatAnswer(b)
		if err != nil {
			decoded = err
			return
		}
		s.wanted = a.WantReports
		s.last.Store(&answeredHeartbeat{sent: sent, fenced: resp.IsFenced, index: a.Index})
		r.HandOver(a.Handovers)
	})
	switch {
	case len(s.wanted) == 0:
		return s.interval, decoded
	case before == 0:
		return 0, decoded
	}
	return retryPause, decoded
}

// again registers this process a second time, after the controller has forgotten it. The same incarnation gets the same
// epoch; another one means that a later process took over.
func (s *session) again(ctx context.Context) error {
	epoch, err := s.registerOnce(ctx)
	if err != nil {
		return err
	}
	if had := s.epoch.Load(); epoch != had {
		return refusedError{fmt.Errorf("registered again under broker epoch %d, had %d: this process's roles are void; it ends and starts anew", epoch, had)}
	}
	return nil
}
