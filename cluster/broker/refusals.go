package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"

	"cordwood/configs"
	"cordwood/logstore"
	"cordwood/logstore/vfs"
)

// What keeps a node from starting is told in one sentence: the key, the address or path, who is likely in the way, and
// the way out. The causes stay wrapped.

// bindError is of an address that this node cannot listen on.
func bindError(key, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return told(err, "%s %s: another process has the port (another node on this machine?): stop it or configure another port", key, address)
	case errors.Is(err, syscall.EACCES):
		return told(err, "%s %s: this process may not listen there (uid %d): ports below 1024 need rights; configure a higher one", key, address, os.Getuid())
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return told(err, "%s %s: this machine does not have the address: configure one that it has, or 0.0.0.0 for all of them", key, address)
	}
	return fmt.Errorf("%s %s: %w", key, address, err)
}

// gossipError is of gossip that did not start: its own name does not resolve, or its port cannot be had.
func gossipError(c configs.Gossip, err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return told(err, "gossip.advertise %s: the name %s does not resolve here (%s): check the name, or DNS, or write an address", c.Advertise, dns.Name, dns.Err)
	}
	if strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
		err = fmt.Errorf("%w: %w", syscall.EADDRINUSE, err) // memberlist keeps only the words of its cause
	}
	return bindError("gossip.bind", c.Bind, err)
}

// dirError is of a data directory that cannot be used.
func dirError(fsys vfs.FS, dir string, err error) error {
	var foreign *logstore.ForeignDirError
	switch {
	case errors.As(err, &foreign):
		return told(err, "node.data_dir: data in %s belongs to %s; this node is configured as node %d%s. Refusing to start. To wipe: cordwood node reset --data %s",
			dir, owned(foreign.ClusterID, foreign.NodeID), foreign.WantNode, ofCluster(foreign.WantCluster), dir)
	case errors.Is(err, fs.ErrPermission):
		at, owner := holder(fsys, dir)
		return told(err, "node.data_dir %s: this process runs as uid %d and may not write %s, which is %s: chown -R %d %s, or run as its owner, or configure another directory",
			dir, os.Getuid(), at, owner, os.Getuid(), at)
	case errors.Is(err, vfs.ErrLocked):
		return told(err, "node.data_dir %s: another process runs on this directory (a second cordwood serve?): stop it, or configure another directory", dir)
	case noRoom(err):
		return told(err, "node.data_dir %s: the disk is full: free some space there, or configure a directory on another disk", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return told(err, "node.data_dir %s: there is a file where a directory is needed: move it away or configure another directory", dir)
	case errors.Is(err, syscall.EROFS):
		return told(err, "node.data_dir %s: the file system is read-only: mount it for writing or configure another directory", dir)
	}
	return fmt.Errorf("node.data_dir %s: %w", dir, err)
}

// foreignCluster is of a directory that the cluster which cluster.join reaches does not know.
func foreignCluster(dir, cluster string, node int32, name string, err error) error {
	return told(err, "node.data_dir: data in %s belongs to %s; this node is configured for another cluster, which it reached as %q by cluster.join. Refusing to start. To wipe: cordwood node reset --data %s",
		dir, owned(cluster, node), name, dir)
}

// registerError is of a registration that will never succeed.
func (b *Broker) registerError(err error) error {
	if errors.Is(err, kerr.InconsistentClusterID) {
		return foreignCluster(b.cfg.Node.DataDir, b.dir.ClusterID(), b.cfg.Node.ID, b.cfg.Cluster.Name, err)
	}
	return err
}

func owned(cluster string, node int32) string {
	if cluster == "" {
		return fmt.Sprintf("node %d of no cluster yet", node)
	}
	return fmt.Sprintf("cluster %s (node %d)", cluster, node)
}

func ofCluster(id string) string {
	if id == "" {
		return ""
	}
	return " of cluster " + id
}

func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// holder is what stands in the way of writing dir: dir, or its nearest parent that exists, and whose it is.
func holder(fsys vfs.FS, dir string) (at, owner string) {
	for at = path.Clean(dir); ; at = path.Dir(at) {
		info, err := fsys.Stat(at)
		if err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				return at, fmt.Sprintf("owned by uid %d, mode %v", s.Uid, info.Mode().Perm())
			}
			return at, fmt.Sprintf("of mode %v", info.Mode().Perm())
		}
		if at == path.Dir(at) {
			return at, "not readable"
		}
	}
}

// refusal is a sentence for people in place of its cause's own words.
type refusal struct {
	text  string
	cause error
}

func told(cause error, format string, args ...any) error {
	return &refusal{fmt.Sprintf(format, args...), cause}
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }
