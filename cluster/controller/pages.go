package controller

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// errStoreDamaged says that raft's files are not what this node wrote. A node that forgot what it promised may not vote.
var errStoreDamaged = errors.New("raft's files are damaged")

// The layout of bbolt's files, of which only the two first pages have checksums.
const (
	pageHeader  = 16
	pageElement = 16 // of leaves and branches
	metaSize    = 64 // the checksum, over all before, included
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	branchPage  = 1
	leafPage    = 2
	metaPage    = 4
	deepest     = 32 // pages from the root of a bucket to a leaf
)

// pages reads a bbolt file page by page, before bbolt does: it maps the file, trusts what it finds, and falls over where
// that leads nowhere. Everything that bbolt writes twice or could be in one place only is checked.
type pages struct {
	f       io.ReaderAt
	size    uint64 // of a page
	most    uint64 // pages
	reached map[uint64]bool
}

// boltMeta is what a meta page says.
type boltMeta struct{ size, root, pages, tx uint64 }

func damagedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errStoreDamaged, fmt.Sprintf(format, args...))
}

// checkPages walks the whole file and gives f each key and value, by bucket. An error wraps errStoreDamaged, or is the
// disk's.
func checkPages(file io.ReaderAt, length int64, f func(bucket string, k, v []byte) error) error {
	first, err := readMeta(file, 0, 0)
	if err != nil {
		return err
	}
	second, err := readMeta(file, int64(first.size), 1)
	if err != nil {
		return err
	}
	newest := first
	if second.tx > first.tx {
		newest = second
	}
	if d := first.tx - second.tx; first.size != second.size || d != 1 && d != ^uint64(0) {
		return damagedf("its two heads are of changes %d and %d", first.tx, second.tx)
	}
	p := &pages{f: file, size: newest.size, most: newest.pages, reached: map[uint64]bool{}}
	if uint64(length) < p.size*2 {
		return damagedf("it has %d bytes", length)
	}
	return p.walk(newest.root, nil, nil, deepest, func(flags uint32, k, v []byte) error {
		if flags != 1 || len(v) < pageHeader {
			return damagedf("%q is no bucket", k)
		}
		bucket := string(k)
		item := func(flags uint32, k, v []byte) error {
			if flags != 0 {
				return damagedf("%q holds a bucket", bucket)
			}
			return f(bucket, k, v)
		}
		if root := binary.LittleEndian.Uint64(v); root != 0 {
			return p.walk(root, nil, nil, deepest, item)
		}
		return leaf(v[pageHeader:], 1, nil, nil, item)
	})
}

func readMeta(f io.ReaderAt, at int64, id uint64) (m boltMeta, err error) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := f.ReadAt(b, at); err != nil {
		return m, short(err, "head %d", id)
	}
	le := binary.LittleEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[pageHeader : pageHeader+metaSize-8])
	body := b[pageHeader:]
	size := uint64(le.Uint32(body[8:]))
	if le.Uint64(b) != id || le.Uint16(b[8:]) != metaPage || le.Uint32(body) != boltMagic || le.Uint32(body[4:]) != boltVersion ||
		le.Uint64(body[metaSize-8:]) != sum.Sum64() || size < 512 || size > 1<<16 {
		return m, damagedf("head %d is not sound", id)
	}
	return boltMeta{size: size, root: le.Uint64(body[16:]), pages: le.Uint64(body[40:]), tx: le.Uint64(body[48:])}, nil
}

// short makes the end of a file damage: it has what is not there.
func short(err error, format string, args ...any) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damagedf("it ends before "+format, args...)
	}
	return err
}

// walk goes through the pages below one. All keys are from least on, and below end where that is not nil.
func (p *pages) walk(id uint64, least, end []byte, deep int, f func(flags uint32, k, v []byte) error) error {
	if id < 2 || id >= p.most || deep == 0 {
		return damagedf("page %d is out of place", id)
	}
	b := make([]byte, p.size)
	if _, err := p.f.ReadAt(b, int64(id*p.size)); err != nil {
		return short(err, "page %d", id)
	}
	more := uint64(binary.LittleEndian.Uint32(b[12:]))
	if binary.LittleEndian.Uint64(b) != id || id+more >= p.most {
		return damagedf("page %d is another one", id)
	}
	for i := id; i <= id+more; i++ {
		if p.reached[i] {
			return damagedf("page %d is in two places", i)
		}
		p.reached[i] = true
	}
	if more > 0 {
		b = append(b, make([]byte, more*p.size)...)
		if _, err := p.f.ReadAt(b[p.size:], int64((id+1)*p.size)); err != nil {
			return short(err, "page %d", id+more)
		}
	}
	if binary.LittleEndian.Uint16(b[8:]) == leafPage {
		return leaf(b, p.size, least, end, f)
	}
	return p.branch(b, least, end, deep, f)
}

// elements gives the elements of a page, whose data lie behind all of them without a gap, keys in order. Behind them less than
// room bytes are left over, all of them zero.
func elements(b []byte, room uint64, kind uint16, least, end []byte, f func(e, data []byte) (used uint64, key []byte, err error)) error {
	if len(b) < pageHeader || binary.LittleEndian.Uint16(b[8:]) != kind {
		return damagedf("a page is of no kind")
	}
	id := binary.LittleEndian.Uint64(b)
	count := uint64(binary.LittleEndian.Uint16(b[10:]))
	at := pageHeader + count*pageElement
	if at > uint64(len(b)) {
		return damagedf("page %d has %d entries", id, count)
	}
	last := least
	for i := range count {
		e := b[pageHeader+i*pageElement:][:pageElement]
		pos := binary.LittleEndian.Uint32(e)
		if kind == leafPage { // flags come first
			pos = binary.LittleEndian.Uint32(e[4:])
		}
		if pageHeader+i*pageElement+uint64(pos) != at {
			return damagedf("entry %d of page %d is out of place", i, id)
		}
		used, key, err := f(e, b[at:])
		if err != nil {
			return err
		}
		if c := bytes.Compare(key, last); len(key) == 0 || c < 0 || c == 0 && i > 0 || end != nil && bytes.Compare(key, end) >= 0 {
			return damagedf("entry %d of page %d is out of order", i, id)
		}
		last = key
		at += used
	}
	if rest := b[at:]; uint64(len(rest)) >= room || len(bytes.TrimLeft(rest, "\x00")) > 0 {
		return damagedf("page %d is longer than what it holds", id)
	}
	return nil
}

func leaf(b []byte, room uint64, least, end []byte, f func(flags uint32, k, v []byte) error) error {
	return elements(b, room, leafPage, least, end, func(e, data []byte) (uint64, []byte, error) {
		k, v := uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:]))
		if k+v > uint64(len(data)) {
			return 0, nil, damagedf("an entry is longer than its page")
		}
		return k + v, data[:k], f(binary.LittleEndian.Uint32(e), data[:k], data[k:k+v])
	})
}

func (p *pages) branch(b, least, end []byte, deep int, f func(flags uint32, k, v []byte) error) error {
	type child struct {
		key []byte
		id  uint64
	}
	var all []child
	err := elements(b, p.size, branchPage, least, end, func(e, data []byte) (uint64, []byte, error) {
		k := uint64(binary.LittleEndian.Uint32(e[4:]))
		if k > uint64(len(data)) {
			return 0, nil, damagedf("a key is longer than its page")
		}
		all = append(all, child{data[:k], binary.LittleEndian.Uint64(e[8:])})
		return k, data[:k], nil
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return damagedf("a branch has no pages")
	}
	for i, c := range all {
		upto := end
		if i+1 < len(all) {
			upto = all[i+1].key
		}
		if err := p.walk(c.id, c.key, upto, deep-1, f); err != nil {
			return err
		}
	}
	return nil
}
