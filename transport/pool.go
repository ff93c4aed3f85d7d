package transport

import (
	"math/bits"
	"sync"
)

// Buffers are pooled in sizes of powers of two; larger ones are left to the garbage collector.
const (
	minClass = 12 // 4 KiB
	maxClass = 24 // 16 MiB
)

var pools [maxClass + 1]sync.Pool

// GetBuffer gives a buffer of length 0 and capacity n or more.
func GetBuffer(n int) []byte {
	class := max(bits.Len(uint(n-1)), minClass)
	if n <= 0 {
		class = minClass
	}
	if class > maxClass {
		return make([]byte, 0, n)
	}
	if p, ok := pools[class].Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return make([]byte, 0, 1<<class)
}

// PutBuffer gives a buffer back. Nothing may refer to it any more.
func PutBuffer(b []byte) {
	if c := cap(b); c >= 1<<minClass && c <= 1<<maxClass {
		class := bits.Len(uint(c)) - 1
		b = b[:0]
		pools[class].Put(&b)
	}
}
