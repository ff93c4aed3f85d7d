package membership

import (
	"strconv"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls, under its own locks: nothing here blocks or calls back.
type delegate struct{ m *Membership }

// NodeMeta describes this node.
func (d *delegate) NodeMeta(limit int) []byte {
	b, err := d.m.table.own().encode()
	if err != nil || len(b) > limit {
		d.m.log.Error("gossip meta is too long to be told", "err", err)
		return nil
	}
	return b
}

// NotifyMsg, GetBroadcasts, LocalState and MergeRemoteState: this package sends no messages of its own.
func (d *delegate) NotifyMsg([]byte)                  {}
func (d *delegate) GetBroadcasts(int, int) [][]byte   { return nil }
func (d *delegate) LocalState(bool) []byte            { return nil }
func (d *delegate) MergeRemoteState(_ []byte, _ bool) {}
func (d *delegate) NotifyJoin(n *memberlist.Node)     { d.changed(n, Alive) }
func (d *delegate) NotifyUpdate(n *memberlist.Node)   { d.changed(n, Alive) }
func (d *delegate) NotifyLeave(n *memberlist.Node)    { d.changed(n, Dead) }

// changed notes a member's new state and passes it on; with nobody to take it in time the oldest event goes.
func (d *delegate) changed(n *memberlist.Node, s State) {
	said, err := decodeMeta(n.Meta)
	if err != nil {
		d.m.log.Info("gossip shows a node that does not say who it is", "name", n.Name, "address", n.Address(), "err", err)
		return
	}
	if said.Leaving && s == Dead {
		s = Left
	}
	member := said.member(s)
	news, flap := d.m.table.set(member)
	if !news {
		return
	}
	if flap {
		d.m.metrics.flaps.WithLabelValues(strconv.Itoa(int(member.NodeID))).Inc()
	}
	for {
		select {
		case d.m.events <- Event{member}:
			return
		default:
		}
		select {
		case <-d.m.events:
		default:
		}
	}
}
