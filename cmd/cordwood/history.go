package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// history holds what was acknowledged, and takes the records of a log in the order of offsets within each partition.
// Memory: 24 bytes per acknowledged record, and three bits per record of the log that has one of the tags.
type history struct {
	tags       map[string]*tagState
	names      []string // of tags, by index
	partitions map[int32]*partitionState
	missing    []missingRecord // the first few that are lost

	found, reordered, unacknowledged int64
	acknowledged, duplicated         int64
	below                            []pending // not found, maybe only expired
}

// tagState knows the numbers of one tag.
type tagState struct {
	index int32
	acked bitset // acknowledged
	seen  bitset // in the log
	twice bitset // in the log at two offsets
}

// partitionState is how far one partition has been compared.
type partitionState struct {
	acked []ackedRecord // sorted by offset
	next  int
	last  map[int32]int64 // by tag: the highest number so far
}

type ackedRecord struct {
	offset, n int64
	tag       int32
}

// pending is an acknowledged record that was not where it was acknowledged.
type pending struct {
	partition int32
	ackedRecord
	why string
}

type missingRecord struct {
	id        string
	partition int32
	offset    int64
	why       string
}

// missingShown bounds the lost records that are named.
const missingShown = 20

func newHistory() *history {
	return &history{tags: map[string]*tagState{}, partitions: map[int32]*partitionState{}}
}

func (h *history) partition(p int32) *partitionState {
	s := h.partitions[p]
	if s == nil {
		s = &partitionState{last: map[int32]int64{}}
		h.partitions[p] = s
	}
	return s
}

// splitID takes an id apart: <tag>-<n>.
func splitID(id string) (tag string, n int64, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(id[i+1:], 10, 64)
	if err != nil || n < 0 || id[i+1] == '+' {
		return "", 0, false
	}
	return id[:i], n, true
}

// readFile takes the lines of one file of produce --acked. A last line without an end was being written when its writer
// was killed: it is left out, and note says so.
func (h *history) readFile(name string, note func(string, ...any)) error {
	f, err := os.Open(name)
	if err != nil {
		return &failure{code: exitNotFound, err: err}
	}
	defer f.Close()
	return h.readLines(name, f, note)
}

// ackedLineMax bounds one line.
const ackedLineMax = 64 << 10

func (h *history) readLines(name string, from io.Reader, note func(string, ...any)) error {
	r := bufio.NewReaderSize(from, ackedLineMax)
	for line := 1; ; line++ {
		text, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			if len(text) > 0 {
				note("%s:%d: left out, the line has no end", name, line)
			}
			return nil
		case err != nil:
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if err := h.acknowledge(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
}

var errNoAckedLine = errors.New("not a line of produce --acked: partition, offset and id, with tabs between")

// acknowledge takes one line.
func (h *history) acknowledge(line []byte) error {
	fields := strings.Split(string(line), "\t")
	if len(fields) != 3 {
		return errNoAckedLine
	}
	p, err1 := strconv.ParseInt(fields[0], 10, 32)
	offset, err2 := strconv.ParseInt(fields[1], 10, 64)
	tag, n, ok := splitID(fields[2])
	if err1 != nil || err2 != nil || !ok || p < 0 || offset < 0 {
		return errNoAckedLine
	}
	t := h.tags[tag]
	if t == nil {
		t = &tagState{index: int32(len(h.names))}
		h.tags[tag] = t
		h.names = append(h.names, tag)
	}
	t.acked.set(n)
	s := h.partition(int32(p))
	s.acked = append(s.acked, ackedRecord{offset, n, t.index})
	return nil
}

// begin sorts what was acknowledged; after it, record may be called.
func (h *history) begin() {
	for _, s := range h.partitions {
		slices.SortFunc(s.acked, func(a, b ackedRecord) int {
			return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.tag, b.tag), cmp.Compare(a.n, b.n))
		})
		s.acked = slices.Compact(s.acked) // a file given twice says nothing twice
		h.acknowledged += int64(len(s.acked))
	}
}

// ends gives for each partition the offset after its last acknowledged record.
func (h *history) ends() map[int32]int64 {
	out := map[int32]int64{}
	for p, s := range h.partitions {
		if len(s.acked) > 0 {
			out[p] = s.acked[len(s.acked)-1].offset + 1
		}
	}
	return out
}

// record takes the next record of a partition. Records without an id of our tags count for nothing but their place.
func (h *history) record(p int32, offset int64, id string) {
	s := h.partition(p)
	for s.next < len(s.acked) && s.acked[s.next].offset < offset {
		h.gone(p, s.acked[s.next], "nothing is there")
		s.next++
	}
	tag, n, ok := splitID(id)
	t := h.tags[tag]
	known := ok && t != nil
	for s.next < len(s.acked) && s.acked[s.next].offset == offset {
		if a := s.acked[s.next]; known && a.tag == t.index && a.n == n {
			h.found++
		} else {
			h.gone(p, a, fmt.Sprintf("%q is there", id))
		}
		s.next++
	}
	if !known {
		return
	}
	if t.seen.set(n) {
		if !t.twice.set(n) {
			h.duplicated++
		}
		return // a second copy is a duplicate, whatever its place in the order
	}
	if !t.acked.has(n) {
		h.unacknowledged++
	}
	if last, ok := s.last[t.index]; ok && n < last {
		h.reordered++
	} else {
		s.last[t.index] = n
	}
}

// gone keeps a record that was not where it was acknowledged until the log start of the end is known.
func (h *history) gone(p int32, a ackedRecord, why string) {
	h.below = append(h.below, pending{p, a, why})
}

// judge ends the comparison. starts are the log starts after reading: what was acknowledged below them is expired.
func (h *history) judge(starts map[int32]int64) *verifyView {
	parts := make([]int32, 0, len(h.partitions))
	for p := range h.partitions {
		parts = append(parts, p)
	}
	slices.Sort(parts)
	for _, p := range parts {
		s := h.partitions[p]
		for ; s.next < len(s.acked); s.next++ {
			h.gone(p, s.acked[s.next], "the log ends before it")
		}
	}
	v := &verifyView{APIVersion: apiVersion, Acknowledged: h.acknowledged, Found: h.found, Duplicated: h.duplicated, Reordered: h.reordered,
		UnacknowledgedPresent: h.unacknowledged, Verdict: "ok"}
	for _, g := range h.below {
		if start, ok := starts[g.partition]; ok && g.offset < start {
			v.Expired++
			continue
		}
		v.Lost++
		if len(h.missing) < missingShown {
			id := h.names[g.tag] + "-" + strconv.FormatInt(g.n, 10)
			h.missing = append(h.missing, missingRecord{id, g.partition, g.offset, g.why})
		}
	}
	switch {
	case v.Lost > 0:
		v.Verdict = "lost"
	case v.Duplicated > 0:
		v.Verdict = "duplicated"
	case v.Reordered > 0:
		v.Verdict = "reordered"
	}
	return v
}

// bitset is a set of numbers from 0, in pieces, so that a large number costs one piece.
type bitset struct{ pieces map[int64]*[1024]uint64 }

const bitsOfPiece = 64 * 1024

// set adds n and says whether it was there.
func (b *bitset) set(n int64) bool {
	if b.pieces == nil {
		b.pieces = map[int64]*[1024]uint64{}
	}
	piece := b.pieces[n/bitsOfPiece]
	if piece == nil {
		piece = new([1024]uint64)
		b.pieces[n/bitsOfPiece] = piece
	}
	word, bit := &piece[n%bitsOfPiece/64], uint64(1)<<(n%64)
	was := *word&bit != 0
	*word |= bit
	return was
}

func (b *bitset) has(n int64) bool {
	piece := b.pieces[n/bitsOfPiece]
	return piece != nil && piece[n%bitsOfPiece/64]&(1<<(n%64)) != 0
}
