package record

import (
	"io"
	"sync/atomic"
)

// Span is a range of whole batches in a file, made by logstore, passed untouched by replica and api, and sent by the
// connection: with sendfile where Src is a syscall.Conn and the socket plain TCP, else by pooled reads. Bytes that an
// unsent Span refers to never change. Whoever holds a Span calls Release exactly once on every path; until then the
// file stays open.
type Span struct {
	Src io.ReaderAt
	Off int64 // byte offset in Src
	Len int64 // bytes

	ref *spanRef
}

type spanRef struct {
	released atomic.Bool
	release  func()
}

// NewSpan makes a Span whose release function is called once, by the first Release of any of its copies.
func NewSpan(src io.ReaderAt, off, n int64, release func()) Span {
	return Span{Src: src, Off: off, Len: n, ref: &spanRef{release: release}}
}

// Release gives the range back. It is safe to call on the zero Span and from any goroutine.
func (s Span) Release() {
	if s.ref != nil && s.ref.released.CompareAndSwap(false, true) && s.ref.release != nil {
		s.ref.release()
	}
}
