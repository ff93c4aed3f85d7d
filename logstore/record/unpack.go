package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs of a batch, the low bits of its attributes.
const (
	CodecNone   int8 = 0
	CodecGzip   int8 = 1
	CodecSnappy int8 = 2
	CodecLZ4    int8 = 3
	CodecZstd   int8 = 4
)

// CodecName is the name that Kafka's tools print; "" for a number that is no codec.
func CodecName(codec int8) string {
	names := [...]string{"none", "gzip", "snappy", "lz4", "zstd"}
	if codec < 0 || int(codec) >= len(names) {
		return ""
	}
	return names[codec]
}

const (
	// MaxUnpacked bounds the records of one batch after decompression, in bytes. Kafka has no bound; a megabyte of
	// zeros packed with zstd may stand for 32 GiB.
	MaxUnpacked = 256 << 20

	lz4Magic = "\x04\x22\x4d\x18"

	windowSize     = 16 << 10  // bytes of unpacked records held while walking
	zstdWindow     = 8 << 20   // the largest zstd window served by the pool
	zstdRareWindow = 128 << 20 // the largest one accepted at all, as Kafka's library does
)

var (
	errUnpacked = errors.New("records unpack to more bytes than allowed")
	errFormat   = errors.New("malformed compressed bytes")
	errCodec    = errors.New("unknown codec")
)

// unpacker streams the unpacked records of one batch, with its own window of bytes: memory does not follow what the
// batch claims to hold. It is used by one goroutine between newUnpacker and done.
type unpacker struct {
	codec  int8
	window [windowSize]byte
	src    bytes.Reader
	gzip   gzip.Reader
	lz4    *lz4.Reader
	zstd   *zstd.Decoder
	snappy snappyBlocks
	rare   bool // holds rareZstd
}

// One pool a codec, so that an unpacker holds the state of one decoder only.
var unpackers [5]sync.Pool

// rareZstd lets one frame at a time have a window above zstdWindow, which its decoder allocates at once.
var rareZstd sync.Mutex

// newUnpacker opens the packed records of a batch. On success the caller calls done once.
func newUnpacker(codec int8, packed []byte, rare bool) (*unpacker, io.Reader, error) {
	if codec <= CodecNone || codec > CodecZstd {
		return nil, nil, errCodec
	}
	u, _ := unpackers[codec].Get().(*unpacker)
	if u == nil {
		u = &unpacker{codec: codec}
	}
	r, err := u.open(packed, rare)
	if err != nil {
		u.done()
		return nil, nil, err
	}
	return u, r, nil
}

func (u *unpacker) open(packed []byte, rare bool) (io.Reader, error) {
	u.src.Reset(packed)
	switch u.codec {
	case CodecGzip:
		return &u.gzip, u.gzip.Reset(&u.src)
	case CodecSnappy:
		u.snappy.reset(packed)
		return &u.snappy, nil
	case CodecLZ4:
		// Bit 5 of the frame's flags: Kafka's own readers know only blocks that stand alone.
		if len(packed) < 7 || string(packed[:4]) != lz4Magic || packed[4]&0x20 == 0 {
			return nil, errFormat
		}
		if u.lz4 == nil {
			u.lz4 = lz4.NewReader(nil)
		}
		u.lz4.Reset(&u.src)
		return u.lz4, nil
	}
	if rare {
		rareZstd.Lock()
		u.rare = true
	}
	if u.zstd == nil || rare {
		window := uint64(zstdWindow)
		if rare {
			window = zstdRareWindow
		}
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(window), zstd.WithDecodeBuffersBelow(0))
		if err != nil {
			return nil, err
		}
		if u.zstd != nil {
			u.zstd.Close()
		}
		u.zstd = d
	}
	return u.zstd, u.zstd.Reset(&u.src)
}

// done gives the unpacker back. The reader must not be used any more.
func (u *unpacker) done() {
	u.src.Reset(nil)
	u.snappy.reset(nil)
	if u.rare {
		u.zstd.Close()
		u.zstd, u.rare = nil, false
		rareZstd.Unlock()
	}
	unpackers[u.codec].Put(u)
}

// Unpack appends the records of a batch, decompressed, to dst. Uncompressed records are appended as they are. At most
// limit bytes are appended, else ErrBatchTooLarge; bytes that do not unpack give ErrInvalidRecord. b starts at the
// batch and holds all of it.
func Unpack(dst []byte, h *Header, b []byte, limit int) ([]byte, error) {
	packed := b[HeaderSize:h.Size()]
	if h.Codec() == CodecNone {
		if len(packed) > limit {
			return dst, ErrBatchTooLarge
		}
		return append(dst, packed...), nil
	}
	out, err := unpackAll(dst, h.Codec(), packed, limit, false)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		out, err = unpackAll(dst, h.Codec(), packed, limit, true)
	}
	switch {
	case errors.Is(err, errUnpacked):
		return dst, fmt.Errorf("%w: %w", ErrBatchTooLarge, err)
	case err != nil:
		return dst, fmt.Errorf("%w: %s: %w", ErrInvalidRecord, CodecName(h.Codec()), err)
	}
	return out, nil
}

func unpackAll(dst []byte, codec int8, packed []byte, limit int, rare bool) ([]byte, error) {
	u, r, err := newUnpacker(codec, packed, rare)
	if err != nil {
		return dst, err
	}
	defer u.done()
	for start := len(dst); ; {
		n, err := r.Read(u.window[:])
		if dst = append(dst, u.window[:n]...); len(dst)-start > limit {
			return dst, errUnpacked
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// Snappy stands in a batch as one raw block, or in the frame of the xerial library that Java clients write: a header of
// 16 bytes, then blocks, each behind its length. Such streams may be joined, header and all.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = 16
	// snappyRatio bounds what a block may claim to unpack to: three bytes stand for 64 at the most.
	snappyRatio = 22
	snappyKept  = 1 << 20 // bytes of a block's buffer that stay with the pool
)

// snappyBlocks unpacks one block after the other.
type snappyBlocks struct {
	rest   []byte // blocks to come
	framed bool
	block  []byte // the present block, unpacked
	pos    int
	buf    []byte
}

func (s *snappyBlocks) reset(packed []byte) {
	s.rest, s.framed, s.block, s.pos = packed, false, nil, 0
	if cap(s.buf) > snappyKept {
		s.buf = nil
	}
	if len(packed) >= xerialHeader && string(packed[:len(xerialMagic)]) == xerialMagic {
		s.framed, s.rest = true, packed[xerialHeader:]
	}
}

func (s *snappyBlocks) Read(p []byte) (int, error) {
	for s.pos == len(s.block) {
		if len(s.rest) == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			s.rest, s.block, s.pos = nil, nil, 0
			return 0, err
		}
	}
	n := copy(p, s.block[s.pos:])
	s.pos += n
	return n, nil
}

func (s *snappyBlocks) next() error {
	packed := s.rest
	if s.framed {
		for len(s.rest) >= xerialHeader && string(s.rest[:len(xerialMagic)]) == xerialMagic {
			if s.rest = s.rest[xerialHeader:]; len(s.rest) == 0 {
				s.block, s.pos = nil, 0
				return nil
			}
		}
		if len(s.rest) < 4 {
			return errFormat
		}
		n := binary.BigEndian.Uint32(s.rest)
		if uint64(n) > uint64(len(s.rest)-4) {
			return errFormat
		}
		packed = s.rest[4 : 4+n]
		s.rest = s.rest[4+n:]
	} else {
		s.rest = nil
	}
	claimed, err := snappy.DecodedLen(packed)
	if err != nil {
		return err
	}
	if claimed > snappyRatio*len(packed)+64 || !plainSnappy(packed) {
		return errFormat
	}
	if cap(s.buf) < claimed {
		s.buf = make([]byte, claimed)
	}
	s.block, err = snappy.Decode(s.buf[:claimed], packed)
	s.pos = 0
	return err
}

// plainSnappy says that a block holds none of the extensions that this decoder knows and Kafka's other readers do not:
// copies from offset 0, which mean "as before". The decoder checks everything else.
func plainSnappy(b []byte) bool {
	_, n := binary.Uvarint(b)
	if n <= 0 {
		return false
	}
	for b = b[n:]; len(b) > 0; {
		tag, size := b[0], 0
		offset := uint32(1)
		switch tag & 3 {
		case 0:
			size = 2 + int(tag>>2)
			if extra := int(tag>>2) - 59; extra > 0 {
				if len(b) <= extra {
					return false
				}
				var length [4]byte
				copy(length[:], b[1:1+extra])
				size = 2 + extra + int(binary.LittleEndian.Uint32(length[:]))
			}
		case 1:
			if size = 2; len(b) >= size {
				offset = uint32(tag>>5)<<8 | uint32(b[1])
			}
		case 2:
			if size = 3; len(b) >= size {
				offset = uint32(binary.LittleEndian.Uint16(b[1:]))
			}
		case 3:
			if size = 5; len(b) >= size {
				offset = binary.LittleEndian.Uint32(b[1:])
			}
		}
		if size > len(b) || offset == 0 {
			return false
		}
		b = b[size:]
	}
	return true
}
