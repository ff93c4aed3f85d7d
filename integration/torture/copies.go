package torture

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"cordwood/integration/history"
	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

const (
	segmentSuffix   = ".log"
	watermarkFile   = "replication-offset-checkpoint"
	watermarkHeader = 2 // lines: the version and the number of entries
)

// readCopies reads what a node that does not run has of all keys, from its data directory. A key that is not there is left
// out.
func readCopies(dir string, node int, h *history.Header) ([]history.Copy, error) {
	disk := vfs.OS{}
	high, err := watermarks(disk, path.Join(dir, watermarkFile))
	if err != nil {
		return nil, err
	}
	var out []history.Copy
	for key, k := range h.Keys {
		name := fmt.Sprintf("%s-%d", h.Topics[k.Topic].Name, k.Partition)
		c, err := readCopy(disk, path.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", node, err)
		}
		c.Key, c.Node, c.High = key, node, min(high[name], c.End)
		out = append(out, c)
	}
	return out, nil
}

// readCopy reads the batches of one partition's directory, checksums and all.
func readCopy(disk vfs.FS, dir string) (c history.Copy, err error) {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return c, err
	}
	var bases []int64
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), segmentSuffix); ok {
			base, err := strconv.ParseInt(name, 10, 64)
			if err != nil {
				return c, fmt.Errorf("%s: %w", path.Join(dir, e.Name()), err)
			}
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	for i, base := range bases {
		if i == 0 {
			c.Start, c.End = base, base
		}
		if err := readSegment(disk, path.Join(dir, fmt.Sprintf("%020d%s", base, segmentSuffix)), &c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// readSegment adds one segment's batches.
func readSegment(disk vfs.FS, name string, c *history.Copy) (err error) {
	f, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	scan := record.Scan(f, 0, size)
	var records record.RecordReader
	for scan.Next() {
		h := &scan.Header
		b := history.Batch{Base: h.BaseOffset, Last: h.LastOffset(), Epoch: h.LeaderEpoch, Control: h.IsControl(), CRC: h.CRC}
		if !b.Control {
			if err := records.Reset(h, scan.Batch()); err != nil {
				return fmt.Errorf("%s: byte %d: %w", name, scan.Pos, err)
			}
			for records.Next() {
				v, err := strconv.ParseInt(string(records.Record.Value), 10, 64)
				if err != nil {
					v = 0
				}
				b.Values = append(b.Values, v)
			}
			if err := records.Err(); err != nil {
				return fmt.Errorf("%s: byte %d: %w", name, scan.Pos, err)
			}
		}
		c.Batches, c.End = append(c.Batches, b), h.EndOffset()
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: byte %d: %w", name, scan.Pos, err)
	}
	return nil
}

// watermarks reads the checkpointed high watermarks, by the partitions' directories. There is none where nothing was
// checkpointed.
func watermarks(disk vfs.FS, name string) (map[string]int64, error) {
	f, err := disk.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	high := map[string]int64{}
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	for n := 0; lines.Scan(); n++ {
		if n < watermarkHeader {
			continue
		}
		w := strings.Fields(lines.Text())
		if len(w) != 3 {
			return nil, fmt.Errorf("%s: line %d is %q", name, n+1, lines.Text())
		}
		at, err := strconv.ParseInt(w[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, n+1, err)
		}
		high[w[0]+"-"+w[1]] = at
	}
	return high, lines.Err()
}
