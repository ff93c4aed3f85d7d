package replica

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"cordwood/transport/rpc"
)

// RPC makes a node connection a Conn.
func RPC(c *rpc.Conn) Conn { return rpcConn{c} }

type rpcConn struct{ *rpc.Conn }

func (c rpcConn) Start(req kmsg.Request) (Call, error) { return c.Conn.Start(req) }
