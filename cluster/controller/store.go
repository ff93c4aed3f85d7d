package controller

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

// checkStore looks at raft's files before anybody else opens them. member says that this node has been in a cluster: then it
// has promised things there, and a store without them is damaged, not new.
func checkStore(dir string, member bool) error {
	snapshots, err := checkSnapshots(filepath.Join(dir, "snapshots"))
	if err != nil {
		return err
	}
	member = member || snapshots > 0
	name := filepath.Join(dir, raftFile)
	f, err := os.Open(name)
	missing := errors.Is(err, os.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	length := int64(0)
	if !missing {
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		length = info.Size()
	}
	if length == 0 {
		if member {
			return damagedf("%s is gone or empty, and this node has been in a cluster", name)
		}
		return nil
	}
	entries, term := 0, false
	err = checkPages(f, length, func(bucket string, k, _ []byte) error {
		if bucket == "logs" {
			entries++
		}
		term = term || bucket == "conf" && string(k) == "CurrentTerm"
		return raftsOwn(bucket, k)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if member && (entries == 0 && snapshots == 0 || !term) {
		return damagedf("%s holds no entries or no term, and this node has been in a cluster", name)
	}
	return nil
}

// raftsOwn says that raft keeps something under this name; else an error that wraps errStoreDamaged.
func raftsOwn(bucket string, k []byte) error {
	switch {
	case bucket == "logs" && len(k) == 8:
	case bucket == "conf" && (string(k) == "CurrentTerm" || string(k) == "LastVoteTerm" || string(k) == "LastVoteCand"):
	default:
		return damagedf("%q in %q is nothing of raft's", k, bucket)
	}
	return nil
}

// checkSnapshots counts snapshots, and sees that each that can be read is the one that its name says. Raft passes over others
// for older ones, which do where its log goes on from there.
func checkSnapshots(dir string) (n int, err error) {
	all, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		if !d.IsDir() || strings.HasSuffix(d.Name(), ".tmp") {
			continue
		}
		n++
		b, err := os.ReadFile(filepath.Join(dir, d.Name(), "meta.json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		var meta raft.SnapshotMeta
		if json.Unmarshal(b, &meta) != nil {
			continue
		}
		if meta.ID != d.Name() || !strings.HasPrefix(meta.ID, fmt.Sprintf("%d-%d-", meta.Term, meta.Index)) {
			return 0, damagedf("snapshot %s says that it is %s of term %d, index %d", d.Name(), meta.ID, meta.Term, meta.Index)
		}
	}
	return n, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the checksum of an entry, which is kept in its extensions: bbolt has none of what it keeps.
func sumOf(e *raft.Log) []byte {
	b := binary.BigEndian.AppendUint64(nil, e.Index)
	b = binary.BigEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, e.Data))
}

// summed gives copies of entries with their checksums: those that were given are in use elsewhere.
func summed(es []*raft.Log) []*raft.Log {
	out := make([]*raft.Log, len(es))
	for i, e := range es {
		c := *e
		c.Extensions = sumOf(e)
		out[i] = &c
	}
	return out
}

// checkEntry sees that an entry that was read is the one that was written, and takes its checksum off. Entries of versions
// that wrote none have none.
func checkEntry(index uint64, e *raft.Log) error {
	if e.Index != index || len(e.Extensions) > 0 && !bytes.Equal(e.Extensions, sumOf(e)) {
		return damagedf("entry %d is not what was written", index)
	}
	e.Extensions = nil
	return nil
}

// valueMark begins the checksum behind a value. Versions before it wrote none.
const valueMark = "\x00sum"

const valueTail = len(valueMark) + 4

func sealed(k, v []byte) []byte {
	out := append(bytes.Clone(v), valueMark...)
	return binary.BigEndian.AppendUint32(out, crc32.Update(crc32.Checksum(k, castagnoli), castagnoli, v))
}

// unsealed takes the checksum off a value that was read.
func unsealed(k, b []byte) ([]byte, error) {
	n := len(b) - valueTail
	if n < 0 || string(b[n:n+len(valueMark)]) != valueMark {
		return b, nil
	}
	if v := b[:n]; bytes.Equal(sealed(k, v), b) {
		return v, nil
	}
	return nil, damagedf("value %s is not what was written", k)
}
