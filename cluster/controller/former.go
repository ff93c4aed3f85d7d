package controller

import (
	"context"
	"sync"
	"time"
)

const (
	formAgain = 200 * time.Millisecond // between two rounds of questions
	askWithin = 2 * time.Second        // one question
)

// form founds the cluster or waits until a leader has added this node. It runs on a node whose store is empty and ends
// when raft holds something.
func (c *Controller) form() {
	told := ""
	for {
		if c.node.raft.LastIndex() > 0 {
			c.hasState.Store(true)
			return
		}
		answers, seen := c.askPeers(c.ctx)
		step, why := decideForming(formingFacts{Self: c.self(), Answers: answers, Seen: seen})
		if step == formBootstrap {
			level := foundingLevel(c.self(), answers)
			c.log.Info("founding the cluster", "why", why, "metadataLevel", level)
			c.founding.Store(level)
			if err := c.node.bootstrap(c.opt.RaftAdvertise, c.opt.DirectoryID); err != nil {
				c.die(err)
			}
			c.hasState.Store(true)
			return
		}
		if why != told {
			told = why
			if step == formConflict {
				c.log.Error("no cluster can be formed until an operator has looked", "why", why)
			} else {
				c.log.Info("waiting for a cluster", "why", why)
			}
		}
		t := time.NewTimer(formAgain)
		select {
		case <-t.C:
		case <-c.ctx.Done():
			t.Stop()
			return
		}
	}
}

// levelToFound is the level of the first command: what forming found, or, where a process before this one formed the
// cluster and ended, what the nodes that answer now know.
func (c *Controller) levelToFound() int32 {
	if level := c.founding.Load(); level != 0 {
		return level
	}
	answers, _ := c.askPeers(c.ctx)
	return foundingLevel(c.self(), answers)
}

// askPeers puts the direct question to every peer that gossip shows alive, at once, and gives the answers with the
// cluster ids that gossip shows of anybody.
func (c *Controller) askPeers(ctx context.Context) (answers []answer, seen []string) {
	peers := c.opt.Peers()
	var addresses []string
	for _, p := range peers {
		seen = append(seen, p.ClusterID)
		if p.Alive && p.RaftAddress != "" {
			addresses = append(addresses, p.RaftAddress)
		}
	}
	return c.askAll(ctx, addresses), seen
}

// askAll puts the direct question to addresses at once and gives the answers that came in time.
func (c *Controller) askAll(ctx context.Context, addresses []string) []answer {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	all := make([]*answer, len(addresses))
	var wait sync.WaitGroup
	for i, address := range addresses {
		wait.Add(1)
		go func() {
			defer wait.Done()
			a, err := ask(ctx, c.opt.Dial, address, c.opt.ClusterName)
			if err != nil {
				c.log.Debug("question without an answer", "err", err)
				return
			}
			all[i] = &a
		}()
	}
	wait.Wait()
	var answers []answer
	for _, a := range all {
		if a != nil {
			answers = append(answers, *a)
		}
	}
	return answers
}
