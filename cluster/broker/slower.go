package broker

import "time"

// With dev_mode a node's replication can be delayed, so that people see what a slow replica costs under each commit rule.

// delayFetches sets the delay; nil without dev_mode.
func (b *Broker) delayFetches() func(time.Duration) {
	if !b.cfg.DevMode {
		return nil
	}
	return func(d time.Duration) {
		b.slower.Store(int64(d))
		b.log.Warn("dev_mode: replication is delayed", "by", d.String())
	}
}

// fetchDelay is the delay in force; nil without dev_mode.
func (b *Broker) fetchDelay() func() time.Duration {
	if !b.cfg.DevMode {
		return nil
	}
	return func() time.Duration { return time.Duration(b.slower.Load()) }
}
