package containers

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tableName is of the table that holds all our rules.
const tableName = "cordwood_torture"

const (
	sourceAt   = 12  // of an IPv4 header
	wholeShare = 100 // per cent
	register   = 1
)

// setRules puts these rules in force in place of those before, at once.
func setRules(w wishes) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("rules of the network: %w", err)
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}
	c.AddTable(table) // so that there is one to delete
	c.DelTable(table)
	table = c.AddTable(table)
	chain := c.AddChain(&nftables.Chain{Name: "heard", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
	for _, a := range w.Drop {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(from(a), &expr.Verdict{Kind: expr.VerdictDrop})})
	}
	for a, share := range w.Lose {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(append(from(a), datagram()...), lost(share)...)})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("rules of the network: %w", err)
	}
	return nil
}

// removeRules leaves nothing behind.
func removeRules() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}
	c.AddTable(table)
	c.DelTable(table)
	return c.Flush()
}

// from matches packets of an address.
func from(address string) []expr.Any {
	a := netip.MustParseAddr(address).As4() // decodeWishes has read it
	return []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: sourceAt, Len: uint32(len(a))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: a[:]},
	}
}

// datagram matches UDP.
func datagram() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{unix.IPPROTO_UDP}},
	}
}

// lost drops a share of what comes so far.
func lost(share int) []expr.Any {
	return []expr.Any{
		&expr.Numgen{Register: register, Modulus: wholeShare, Type: unix.NFT_NG_RANDOM},
		&expr.Byteorder{SourceRegister: register, DestRegister: register, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: register, Data: binary.BigEndian.AppendUint32(nil, uint32(share))},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
}
