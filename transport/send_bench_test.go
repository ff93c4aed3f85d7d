package transport_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"cordwood/logstore/record"
	"cordwood/transport"
)

const benchSpan = 1 << 20

// BenchmarkFetchPieces sends 1 MiB of a file behind an answer's header through the server, BenchmarkBareSendfile the
// same bytes with nothing around them: the ratio is what the server costs.
func BenchmarkFetchPieces(b *testing.B) {
	file, _ := wholeFile(b, benchSpan)
	s := &stub{handle: func(_ context.Context, _ *transport.Request) transport.Response {
		return transport.Response{Pieces: []transport.Piece{
			{Bytes: make([]byte, 80), Span: record.NewSpan(file, 0, benchSpan, nil)}, {Bytes: make([]byte, 3)},
		}}
	}}
	conn := dialRaw(b, start(b, s, nil), "external")
	_ = conn.SetDeadline(time.Time{})
	ask, buf := frameOf(1, metadata(1)), make([]byte, 256<<10)
	b.SetBytes(benchSpan)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(ask); err != nil {
			b.Fatal(err)
		}
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			b.Fatal(err)
		}
		discard(b, conn, int64(binary.BigEndian.Uint32(head[:])), buf)
	}
}

func BenchmarkBareSendfile(b *testing.B) {
	file, _ := wholeFile(b, benchSpan)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		ask := make([]byte, 1)
		for {
			if _, err := io.ReadFull(conn, ask); err != nil {
				return
			}
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return
			}
			if _, err := io.CopyN(conn, file, benchSpan); err != nil {
				return
			}
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 256<<10)
	b.SetBytes(benchSpan)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write([]byte{1}); err != nil {
			b.Fatal(err)
		}
		discard(b, conn, benchSpan, buf)
	}
	_ = conn.Close()
	_ = l.Close()
	<-done
}

func discard(b *testing.B, r io.Reader, n int64, buf []byte) {
	for n > 0 {
		m, err := r.Read(buf[:min(n, int64(len(buf)))])
		if err != nil {
			b.Fatal(err)
		}
		n -= int64(m)
	}
}
