package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A frame is one request of a recorded client, without its size.
type frame struct {
	Conn    int    `json:"conn"`
	API     string `json:"api"`
	Version int16  `json:"version"`
	Client  string `json:"client"`
	Bytes   string `json:"bytes"`
}

// proxy passes connections on to a broker and writes every request frame to out, one JSON object a line. The broker must
// advertise the proxy's address, or clients go round it.
func proxy(listen, to, out string) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", listen)
	must(err)
	f, err := os.Create(out)
	must(err)
	var mu sync.Mutex
	e := json.NewEncoder(f)
	for n := 1; ; n++ {
		c, err := l.Accept()
		must(err)
		b, err := connect(to)
		if err != nil {
			fmt.Println(err)
			_ = c.Close()
			continue
		}
		go func() { _, _ = io.Copy(c, b); _ = c.Close() }()
		go func(conn int) {
			defer func() { _ = b.Close() }()
			for {
				raw, err := readFrame(c)
				if err != nil {
					return
				}
				mu.Lock()
				must(e.Encode(describe(conn, raw)))
				mu.Unlock()
				if _, err := b.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)); err != nil {
					return
				}
			}
		}(n)
	}
}

func readFrame(c io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 100<<20 {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	return b, err
}

func describe(conn int, raw []byte) frame {
	fr := frame{Conn: conn, Bytes: hex.EncodeToString(raw)}
	if len(raw) >= 10 {
		fr.API = kmsg.NameForKey(int16(binary.BigEndian.Uint16(raw)))
		fr.Version = int16(binary.BigEndian.Uint16(raw[2:]))
		if n := int(int16(binary.BigEndian.Uint16(raw[8:]))); n > 0 && 10+n <= len(raw) {
			fr.Client = string(raw[10 : 10+n])
		}
	}
	return fr
}

// replay sends recorded frames again, a connection each as recorded, and says how each was answered: decodable or not, and
// its bytes left over. Ids of the recorded cluster are stale, so error codes are printed, not judged.
func replay(addr, file string) {
	f, err := os.Open(file)
	must(err)
	conns := map[int]net.Conn{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 200<<20)
	n, bad := 0, 0
	for sc.Scan() {
		var fr frame
		must(json.Unmarshal(sc.Bytes(), &fr))
		raw, err := hex.DecodeString(fr.Bytes)
		must(err)
		c := conns[fr.Conn]
		if c == nil {
			c, err = connect(addr)
			must(err)
			conns[fr.Conn] = c
		}
		n++
		if msg := exchangeFrame(c, raw); msg != "" {
			bad++
			fmt.Printf("%s v%d (conn %d): %s\n", fr.API, fr.Version, fr.Conn, msg)
			_ = c.Close()
			delete(conns, fr.Conn)
		}
	}
	fmt.Printf("frames %d bad %d\n", n, bad)
	if bad > 0 {
		os.Exit(1)
	}
}

func exchangeFrame(c net.Conn, raw []byte) string {
	if len(raw) < 8 {
		return "short frame"
	}
	key, v := int16(binary.BigEndian.Uint16(raw)), int16(binary.BigEndian.Uint16(raw[2:]))
	req := kmsg.RequestForKey(key)
	if req == nil {
		return "unknown key"
	}
	req.SetVersion(v)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)); err != nil {
		return err.Error()
	}
	b, err := readFrame(c)
	if err != nil {
		return err.Error()
	}
	resp := req.ResponseKind()
	body := b[4:]
	if resp.IsFlexible() && key != 18 {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return "undecodable: " + err.Error()
	}
	if left := len(body) - len(resp.AppendTo(nil)); left != 0 {
		return fmt.Sprintf("re-encoded length differs by %d", left)
	}
	return ""
}
