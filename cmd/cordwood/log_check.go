package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"cordwood/logstore/record"
	"cordwood/logstore/vfs"
)

type segmentView struct {
	File         string `json:"file"`
	Bytes        int64  `json:"bytes"`
	Batches      int64  `json:"batches"`
	BaseOffset   int64  `json:"baseOffset"`
	EndOffset    int64  `json:"endOffset"`    // after the last good batch
	FirstBadByte *int64 `json:"firstBadByte"` // null: none
	Reason       string `json:"reason,omitempty"`
	Unwritten    int64  `json:"unwritten"` // zeros at the end of a preallocated file, bytes
}

type checkView struct {
	APIVersion string        `json:"apiVersion"`
	Segments   []segmentView `json:"segments"`
	Bad        int           `json:"bad"`
}

func (v *checkView) table(w io.Writer, _ bool) {
	fmt.Fprintln(w, "SEGMENT\tBYTES\tBATCHES\tOFFSETS\tFIRST BAD BYTE")
	for _, s := range v.Segments {
		bad := "-"
		if s.FirstBadByte != nil {
			bad = fmt.Sprintf("%d: %s", *s.FirstBadByte, s.Reason)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d-%d\t%s\n", s.File, s.Bytes, s.Batches, s.BaseOffset, s.EndOffset, bad)
	}
}

func (v *checkView) names() (list []string) {
	for _, s := range v.Segments {
		if s.FirstBadByte != nil {
			list = append(list, s.File)
		}
	}
	return list
}

// checkLogs reads all segments below a directory.
func (a *app) checkLogs(ctx context.Context, dir string) error {
	return a.show(ctx, &checkView{}, func(ctx context.Context) (view, error) {
		v := &checkView{APIVersion: apiVersion, Segments: []segmentView{}}
		if err := v.walk(ctx, vfs.OS{}, dir); err != nil {
			return nil, pathError(err)
		}
		if len(v.Segments) == 0 {
			return nil, &failure{code: exitNotFound, err: fmt.Errorf("no segment (<offset>%s) stands in or below %s", logSuffix, dir)}
		}
		if v.Bad > 0 {
			return v, exit(exitOther)
		}
		return v, nil
	})
}

// walk checks the segments in a directory and in those below it.
func (v *checkView) walk(ctx context.Context, disk vfs.FS, dir string) error {
	segments, err := segmentsIn(disk, dir)
	if err != nil {
		return err
	}
	if err := v.partition(ctx, disk, segments); err != nil {
		return err
	}
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := v.walk(ctx, disk, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *checkView) partition(ctx context.Context, disk vfs.FS, segments []segmentFile) error {
	c := checker{epoch: record.NoEpoch}
	for i, s := range segments {
		c.limit = -1
		if !s.last {
			c.limit = segments[i+1].base
		}
		got, err := c.segment(ctx, disk, s)
		if err != nil {
			return err
		}
		if got.FirstBadByte != nil {
			v.Bad++
		}
		v.Segments = append(v.Segments, got)
	}
	return nil
}

// checker carries what the batches of a partition promise for the ones that follow.
type checker struct {
	end    int64 // offset that the next batch must not fall below
	epoch  int32 // leader epoch likewise
	limit  int64 // offset that the batches of the segment must not reach, -1 for none
	reader record.RecordReader
}

// segment reads one segment whole.
func (c *checker) segment(ctx context.Context, disk vfs.FS, s segmentFile) (v segmentView, err error) {
	f, err := disk.Open(s.path)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return v, err
	}
	c.end = s.base // a bad segment before says nothing about this one
	v = segmentView{File: s.path, Bytes: size, BaseOffset: s.base}
	scan := record.Scan(f, 0, size)
	reason := ""
	for reason == "" && scan.Next() {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		if reason = c.batch(scan); reason == "" {
			v.Batches++
		}
	}
	if v.EndOffset = c.end; reason == "" && scan.Err() == nil {
		return v, nil
	}
	if reason == "" {
		zeros, err := scan.ZeroTail()
		if err != nil {
			return v, err
		}
		if zeros && s.last {
			v.Unwritten = size - scan.Pos
			return v, nil
		}
		if err := scan.Err(); !errors.Is(err, record.ErrShortBatch) && !errors.Is(err, record.ErrCorruptBatch) {
			return v, fmt.Errorf("%s: byte %d: %w", s.path, scan.Pos, err)
		}
		reason = scan.Err().Error()
		if zeros {
			reason = "zeros to the end of the file"
		}
	}
	v.FirstBadByte, v.Reason = &scan.Pos, reason
	return v, nil
}

// batch says what is wrong with a batch whose checksum is right, "" if nothing is.
func (c *checker) batch(scan *record.Scanner) string {
	h := &scan.Header
	switch {
	case h.BaseOffset < c.end:
		return fmt.Sprintf("offset %d where %d or more must follow", h.BaseOffset, c.end)
	case c.limit >= 0 && h.LastOffset() >= c.limit:
		return fmt.Sprintf("offset %d belongs to the next segment, which begins at %d", h.LastOffset(), c.limit)
	case h.LeaderEpoch < c.epoch:
		return fmt.Sprintf("leader epoch %d after %d", h.LeaderEpoch, c.epoch)
	}
	err := c.reader.Reset(h, scan.Batch())
	last := h.BaseOffset - 1
	for err == nil && c.reader.Next() {
		if r := &c.reader.Record; r.Offset <= last || r.Offset > h.LastOffset() {
			return fmt.Sprintf("a record bears the offset %d in a batch of %d to %d", r.Offset, h.BaseOffset, h.LastOffset())
		}
		last = c.reader.Record.Offset
	}
	if err == nil {
		err = c.reader.Err()
	}
	if err != nil {
		return err.Error()
	}
	c.end, c.epoch = h.EndOffset(), h.LeaderEpoch
	return ""
}
