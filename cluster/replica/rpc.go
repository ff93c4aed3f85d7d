package replica

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/fsm/partition"
	"cordwood/transport/rpc"
)

// RPC makes a node connection a Conn.
func RPC(c *rpc.Conn) Conn { return rpcConn{c} }

type rpcConn struct{ *rpc.Conn }

func (c rpcConn) Start(req kmsg.Request) (Call, error) { return c.Conn.Start(req) }

func (c rpcConn) Ack(a *partition.Ack) error {
	return c.Tell(rpc.AckKey, partition.AppendAck(nil, a))
}
