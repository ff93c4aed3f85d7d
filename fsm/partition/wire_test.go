package partition

import (
	"bytes"
	"testing"
)

func FuzzFetchTags(f *testing.F) {
	f.Add(EncodeInt64(-1))
	f.Add(EncodeFetchState(FetchState{LeaderEpoch: 7, LogStart: 1 << 40, LogStartEpoch: -1, Reset: true}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := DecodeInt64(b); err == nil && !bytes.Equal(EncodeInt64(v), b) {
			t.Fatalf("%x reads as %d, which is written otherwise", b, v)
		}
		if s, err := DecodeFetchState(b); err == nil && !bytes.Equal(EncodeFetchState(s), b) {
			t.Fatalf("%x reads as %+v, which is written otherwise", b, s)
		}
	})
}

func TestFetchTagsOfAnotherSizeAreRefused(t *testing.T) {
	for n := range 40 {
		b := make([]byte, n)
		if _, err := DecodeInt64(b); (err == nil) != (n == 8) {
			t.Errorf("int64 of %d bytes: %v", n, err)
		}
		if _, err := DecodeFetchState(b); (err == nil) != (n == fetchStateSize) {
			t.Errorf("fetch state of %d bytes: %v", n, err)
		}
	}
}
