package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// sockets is where Linux lists IPv4 TCP connections.
const sockets = "/proc/net/tcp"

// errNoSockets is a system that does not tell which process has a connection.
var errNoSockets = errors.New("edges between nodes need Linux, which tells whose a connection is")

// source finds the node that a connection or datagram comes from. Connections are looked up among the open files of the
// nodes' processes, so that nodes may end and start as they like; datagrams come from the gossip port.
func (c *Cluster) source(network string, from, road netip.AddrPort) (int, bool) {
	if network == "udp" {
		for _, n := range c.Nodes {
			if _, port, err := net.SplitHostPort(n.Gossip); err == nil && port == strconv.Itoa(int(from.Port())) {
				return n.ID, true
			}
		}
		return 0, false
	}
	inode, err := socketOf(from.Port(), road.Port())
	if err != nil {
		return 0, false
	}
	for _, n := range c.Nodes {
		if n.holds(inode) {
			return n.ID, true
		}
	}
	return 0, false
}

// socketOf names the socket of a connection from a local port to another, as links to it in /proc read.
func socketOf(from, to uint16) (string, error) {
	f, err := os.Open(sockets)
	if err != nil {
		return "", err
	}
	defer f.Close()
	local, remote := fmt.Sprintf(":%04X", from), fmt.Sprintf(":%04X", to)
	s := bufio.NewScanner(f)
	for s.Scan() {
		cells := strings.Fields(s.Text())
		if len(cells) > 9 && strings.HasSuffix(cells[1], local) && strings.HasSuffix(cells[2], remote) && cells[9] != "0" {
			return "socket:[" + cells[9] + "]", nil
		}
	}
	return "", errors.Join(fs.ErrNotExist, s.Err())
}

// holds says whether the node's process has a file open that its links in /proc call so.
func (n *Node) holds(file string) bool {
	pid := n.pid.Load()
	if pid == 0 {
		return false
	}
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	for {
		fds, err := d.Readdirnames(256)
		for _, fd := range fds {
			if at, err := os.Readlink(dir + fd); err == nil && at == file {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}
