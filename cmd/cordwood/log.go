package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

// logSuffix ends the names of segment files; the rest is the segment's base offset.
const logSuffix = ".log"

func newLogCommand(a *app) *cobra.Command {
	var records bool
	dump := a.shapedBy(&cobra.Command{Use: "dump FILE|DIR", Short: "Print the batches of a segment or of a partition's directory",
		Long: "Print the batches, or with --records the records, of one segment file or of all segments of a partition's directory.\n" +
			"Files are only read. Those of Apache Kafka have the same format.",
		Args: takes(1, 1, "a segment file or a partition's directory"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.dumpLog(cmd.Context(), args[0], records) }}, func() any {
		if records {
			return loggedRecord{}
		}
		return batchView{}
	})
	dump.Flags().BoolVar(&records, "records", false, "A line a record")
	check := a.shaped(&cobra.Command{Use: "check DIR", Short: "Read all segments below a directory and name the first bad byte of each",
		Long: "Read every batch and record of all segments in a partition's directory, or in all partitions of a data directory, and\n" +
			"name the first byte of each segment that cannot be right. Files are only read. In the directory of a running node the\n" +
			"last segment may end in a batch that is just being written.\n\nExit code 1 if any segment has a bad byte.",
		Args: takes(1, 1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.checkLogs(cmd.Context(), args[0]) }}, &checkView{})
	return group("log", "Look into segment files, without a node", nil, dump, check)
}

// segmentFile is one segment on the disk.
type segmentFile struct {
	path string
	base int64 // the offset in its name; -1 if the name has none
	last bool  // no segment of the partition follows
}

// segmentsIn lists the segments that stand directly in a directory, in their order.
func segmentsIn(disk vfs.FS, dir string) ([]segmentFile, error) {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []segmentFile
	for _, e := range entries {
		base, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), logSuffix), 10, 64)
		if e.Type().IsRegular() && path.Ext(e.Name()) == logSuffix && err == nil {
			list = append(list, segmentFile{path: filepath.Join(dir, e.Name()), base: base})
		}
	}
	slices.SortFunc(list, func(a, b segmentFile) int { return int(min(1, max(-1, a.base-b.base))) })
	if len(list) > 0 {
		list[len(list)-1].last = true
	}
	return list, nil
}

// pathError makes an exit code of what went wrong with a path that the user gave.
func pathError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &failure{code: exitNotFound, err: err}
	}
	return err
}

// toDump finds the segments that FILE|DIR means.
func toDump(disk vfs.FS, name string) ([]segmentFile, error) {
	info, err := disk.Stat(name)
	if err != nil {
		return nil, pathError(err)
	}
	if !info.IsDir() {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), logSuffix), 10, 64)
		if err != nil {
			base = -1
		}
		return []segmentFile{{path: name, base: base, last: true}}, nil
	}
	list, err := segmentsIn(disk, name)
	if err == nil && len(list) == 0 {
		err = &failure{code: exitNotFound, err: fmt.Errorf("no segment (<offset>%s) stands in %s", logSuffix, name),
			hint: "name the directory of one partition; cordwood log check looks through a whole data directory"}
	}
	return list, err
}

type batchView struct {
	File          string  `json:"file"`
	Position      int64   `json:"position"` // bytes from the file's start
	Size          int64   `json:"size"`     // bytes
	BaseOffset    int64   `json:"baseOffset"`
	LastOffset    int64   `json:"lastOffset"`
	Count         int32   `json:"count"`
	LeaderEpoch   int32   `json:"leaderEpoch"`
	Codec         string  `json:"codec"`
	TimestampType string  `json:"timestampType"`
	MaxTimestamp  int64   `json:"maxTimestamp"`
	DeleteHorizon *int64  `json:"deleteHorizon"`
	ProducerID    int64   `json:"producerId"`
	ProducerEpoch int16   `json:"producerEpoch"`
	Sequence      int32   `json:"sequence"` // of the first record
	Transactional bool    `json:"transactional"`
	Control       *string `json:"control"`
}

type loggedRecord struct {
	Offset        int64        `json:"offset"`
	Timestamp     int64        `json:"timestamp"`
	TimestampType string       `json:"timestampType"`
	LeaderEpoch   int32        `json:"leaderEpoch"`
	Codec         string       `json:"codec"`
	Key           *string      `json:"key"`
	Value         *string      `json:"value"`
	Headers       [][2]*string `json:"headers"`
	ProducerID    int64        `json:"producerId"`
	ProducerEpoch int16        `json:"producerEpoch"`
	Sequence      int32        `json:"sequence"`
	Transactional bool         `json:"transactional"`
	Control       *string      `json:"control"`
}

func timestampType(h *record.Header) string {
	if h.HasLogAppendTime() {
		return "append"
	}
	return "create"
}

// controlOf is what a control batch marks, nil for a batch of user records. Compaction may have emptied it.
func controlOf(h *record.Header, key []byte) (*string, error) {
	if !h.IsControl() {
		return nil, nil
	}
	kind, err := record.ParseControlKey(key)
	if err != nil {
		return nil, err
	}
	s := kind.String()
	return &s, nil
}

// dumpLog prints the batches or records of a segment or partition.
func (a *app) dumpLog(ctx context.Context, name string, records bool) error {
	switch a.output {
	case "table", "wide", "json":
	default:
		return usage("cordwood log dump writes -o table or json")
	}
	disk := vfs.OS{}
	segments, err := toDump(disk, name)
	if err != nil {
		return err
	}
	d := dumper{app: a, records: records}
	for _, s := range segments {
		if err := d.segment(ctx, disk, s); err != nil {
			return err
		}
	}
	return d.flush()
}
