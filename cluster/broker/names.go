package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// How long a node without a cluster waits for the names of cluster.join: nodes that start together get theirs within
// moments of each other where a name lives as long as its container.
const (
	namesLimit = 10 * time.Second
	namesRetry = 500 * time.Millisecond
	nameLimit  = 2 * time.Second // one look-up
)

// joinNames looks up the names of cluster.join until all resolve, a cluster is found or ctx ends; after limit without
// either it is an error: no cluster is founded while a node of the list is missing, and a name that is wrong would be
// missing for ever. A node that found a cluster only warns: others may be down, names and all.
func joinNames(ctx context.Context, join []string, found func() bool, limit time.Duration, lookup func(context.Context, string) error, log *slog.Logger) error {
	tick := time.NewTicker(namesRetry)
	defer tick.Stop()
	began, told := time.Now(), false
	for {
		address, err := unresolved(ctx, join, lookup)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case found():
			log.Warn("a name of cluster.join does not resolve: that node is called again and again", "address", address, "err", err)
			return nil
		case time.Since(began) >= limit:
			return joinNameError(address, err)
		case !told:
			told = true
			log.Info("a name of cluster.join does not resolve yet", "address", address, "err", err, "waiting", limit.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// unresolved gives the first address whose name does not resolve, with the reason.
func unresolved(ctx context.Context, join []string, lookup func(context.Context, string) error) (address string, err error) {
	for _, address := range join {
		host, _, err := net.SplitHostPort(address)
		if err == nil && net.ParseIP(host) == nil {
			err = lookup(ctx, host)
		}
		if err != nil {
			return address, err
		}
	}
	return "", nil
}

// lookupHost asks the machine's resolver.
func lookupHost(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, nameLimit)
	defer cancel()
	_, err := net.DefaultResolver.LookupHost(ctx, host)
	return err
}

// clusterFound says that this node belongs to a cluster or that gossip has met one.
func (b *Broker) clusterFound() bool {
	if b.dir.ClusterID() != "" || b.controller.Image().ClusterID() != "" {
		return true
	}
	for _, p := range b.peers() {
		if p.ClusterID != "" {
			return true
		}
	}
	return false
}

// joinNameError is of a name of cluster.join that nobody knows.
func joinNameError(address string, err error) error {
	why := err.Error()
	var dns *net.DNSError
	if errors.As(err, &dns) {
		why = dns.Err
	}
	return told(err, "cluster.join %s: the name does not resolve here (%s): it is misspelled, or that node is not started and has its name only while it runs: correct the list, start that node, or write its address",
		address, why)
}
