package api

import (
	"cordwood/fsm/metadata"
)

// endpoint gives where clients of a listener reach a node. ok is false for nodes that are not registered or lack the
// listener; whether a node is fenced is the caller's matter.
func endpoint(img *metadata.Image, node int32, listener string) (at metadata.Endpoint, rack *string, ok bool) {
	b := img.Broker(node)
	if b == nil {
		return at, nil, false
	}
	at, ok = b.Listeners[listener]
	return at, rackOf(b), ok
}

// rackOf is a node's rack as answers have it: null for none.
func rackOf(b *metadata.Broker) *string {
	if b.Rack == "" {
		return nil
	}
	return &b.Rack
}

// hintedLeaders collects the nodes that partition errors name as leaders (KIP-951), each once.
type hintedLeaders struct {
	img      *metadata.Image
	listener string
	nodes    []int32
}

// add takes a leader hint; a node that clients of the listener cannot reach is no hint.
func (l *hintedLeaders) add(node int32) {
	if node < 0 {
		return
	}
	for _, n := range l.nodes {
		if n == node {
			return
		}
	}
	l.nodes = append(l.nodes, node)
}

// each calls f for every node that the client can reach.
func (l *hintedLeaders) each(f func(node int32, at metadata.Endpoint, rack *string)) {
	for _, n := range l.nodes {
		if at, rack, ok := endpoint(l.img, n, l.listener); ok {
			f(n, at, rack)
		}
	}
}
