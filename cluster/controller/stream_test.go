package controller

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func testStream(t *testing.T, directory string) (*stream, string) {
	bind := testAddress()
	s, err := openStream(bind, bind, directory, func(context.Context, net.Conn) {}, (&net.Dialer{}).DialContext, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, bind
}

func TestADialMeantForAWipedDirectoryDoesNotReachTheProcessInItsPlace(t *testing.T) {
	s, address := testStream(t, "new")
	other, _ := testStream(t, "other")

	meant, err := other.Dial(raftAddress(address, "old"), time.Second)
	require.NoError(t, err)
	defer meant.Close()
	require.NoError(t, meant.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = meant.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "it is closed without having been given to raft")

	right, err := other.Dial(raftAddress(address, "new"), time.Second)
	require.NoError(t, err)
	defer right.Close()
	got, err := s.Accept()
	require.NoError(t, err)
	_, err = right.Write([]byte("raft"))
	require.NoError(t, err)
	b := make([]byte, 4)
	_, err = io.ReadFull(got, b)
	require.NoError(t, err)
	require.Equal(t, "raft", string(b), "raft's bytes follow the hello")
	require.NoError(t, got.Close())
	require.Empty(t, s.conns)
}

func TestConnectionsThatDoNotSpeakTheProtocolAreClosedAndDisturbNobody(t *testing.T) {
	s, address := testStream(t, "d")
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "", "R\xff" + strings.Repeat("x", 255), "R\x05ab"} {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = c.Write([]byte(hello))
		require.NoError(t, err)
		_ = c.(*net.TCPConn).CloseWrite() // the other side may have closed already
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded, hello)
		require.NoError(t, c.Close())
	}
	// One that says nothing keeps nobody waiting.
	silent, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer silent.Close()
	c, err := s.Dial(raftAddress(address, "d"), time.Second)
	require.NoError(t, err)
	defer c.Close()
	got, err := s.Accept()
	require.NoError(t, err)
	require.NoError(t, got.Close())
}

func TestServerNamesAndAddressesAreReadBack(t *testing.T) {
	node, dir := splitServerID(serverID(12, "abc.def"))
	require.Equal(t, int32(12), node)
	require.Equal(t, "abc.def", dir)
	for _, bad := range []string{"", "12", "x.d", "."} {
		node, _ := splitServerID(raft.ServerID(bad))
		require.Equal(t, int32(-1), node, bad)
	}
	hostPort, dir := splitRaftAddress(raftAddress("[::1]:9093", "abc"))
	require.Equal(t, "[::1]:9093", hostPort)
	require.Equal(t, "abc", dir)
}

func TestAnAnswerIsOfTheSameNameAndVersion(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, writeMessage(&b, answer{Version: questionVersion, ClusterName: "a", NodeID: 3}))
	good := b.Bytes()
	a, err := readAnswer(bytes.NewReader(good), "a")
	require.NoError(t, err)
	require.Equal(t, int32(3), a.NodeID)
	_, err = readAnswer(bytes.NewReader(good), "b")
	require.ErrorIs(t, err, errQuestion)
	_, err = readAnswer(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), "a")
	require.ErrorIs(t, err, errQuestion, "refused before anything is allocated")
}

func FuzzAnswer(f *testing.F) {
	var b bytes.Buffer
	if err := writeMessage(&b, answer{Version: questionVersion, ClusterName: "a", Join: []string{"x"}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := readAnswer(bytes.NewReader(in), "a")
		if err != nil {
			return
		}
		var out bytes.Buffer
		require.NoError(t, writeMessage(&out, a))
		back, err := readAnswer(&out, "a")
		require.NoError(t, err)
		require.Equal(t, a.NodeID, back.NodeID)
		require.Equal(t, a.Version, back.Version)
	})
}
