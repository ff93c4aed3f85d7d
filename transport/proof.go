package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Nodes of a cluster with a secret prove it to each other when a connection begins, before the first request between
// nodes. Two exchanges in frames of Kafka's shape under a private key:
//
//	→ key 31000 version 0, correlation id 0, client id null, 32 random bytes C
//	← correlation id 0, 32 random bytes S, HMAC-SHA256(secret, "server" C S)
//	→ key 31000 version 1, correlation id 1, client id null, HMAC-SHA256(secret, "client" S C)
//	← correlation id 1
//
// Neither side sends anything that it was not asked for in its own role, so that an answer cannot be played back. The
// proof says who opened the connection; it neither hides nor signs what follows. A connection without it is served as
// a client's.
const (
	proofKey     int16 = 31000
	proofBytes         = 32
	proofHeader        = 10 // key, version, correlation id, null client id
	proofTimeout       = 10 * time.Second
)

// ErrSecret is a peer that did not prove the cluster's secret.
var ErrSecret = errors.New("the peer did not prove the cluster's secret")

// challenge is what a server remembers between the two exchanges.
type challenge struct{ client, server [proofBytes]byte }

func isProof(frame []byte) bool {
	return len(frame) >= 2 && int16(binary.BigEndian.Uint16(frame)) == proofKey
}

func (c *challenge) sum(secret []byte, role string, first, second [proofBytes]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(role))
	mac.Write(first[:])
	mac.Write(second[:])
	return mac.Sum(nil)
}

// prove is the server's side. It is called by the connection's reader.
func (c *conn) prove(frame []byte) error {
	secret := c.server.opt.Secret
	switch {
	case len(secret) == 0:
		return badFrame("secret", "a node proves a cluster secret, but this node has none configured (cluster.secret_file)")
	case len(frame) != proofHeader+proofBytes:
		return badFrame("secret", "a proof of %d bytes", len(frame))
	}
	version := binary.BigEndian.Uint16(frame[2:])
	given := [proofBytes]byte(frame[proofHeader:])
	switch {
	case version == 0 && c.challenge == nil:
		c.challenge = &challenge{client: given}
		if _, err := rand.Read(c.challenge.server[:]); err != nil {
			return err
		}
		answer := appendHead(nil, 0, false)
		answer = append(answer, c.challenge.server[:]...)
		answer = append(answer, c.challenge.sum(secret, "server", c.challenge.client, c.challenge.server)...)
		binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
		return c.out.bytes(answer)
	case version == 1 && c.challenge != nil:
		if !hmac.Equal(given[:], c.challenge.sum(secret, "client", c.challenge.server, c.challenge.client)) {
			return badFrame("secret", "a node with another cluster secret")
		}
		c.challenge = nil
		c.info.Internal = true
		answer := appendHead(nil, 1, false)
		binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
		return c.out.bytes(answer)
	}
	return badFrame("secret", "proof frames out of order")
}

// Prove is the opener's side: it proves secret on a fresh connection and checks the other's proof. It returns ErrSecret
// where the peer fails it or refuses.
func Prove(conn net.Conn, secret []byte) error {
	_ = conn.SetDeadline(time.Now().Add(proofTimeout))
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	var ch challenge
	if _, err := rand.Read(ch.client[:]); err != nil {
		return err
	}
	if err := ask(conn, 0, ch.client[:]); err != nil {
		return err
	}
	var answer [8 + 2*proofBytes]byte
	if err := listen(conn, 0, answer[:]); err != nil {
		return err
	}
	ch.server = [proofBytes]byte(answer[8:])
	if !hmac.Equal(answer[8+proofBytes:], ch.sum(secret, "server", ch.client, ch.server)) {
		return ErrSecret
	}
	if err := ask(conn, 1, ch.sum(secret, "client", ch.server, ch.client)); err != nil {
		return err
	}
	return listen(conn, 1, answer[:8])
}

// ask sends one frame of the proof.
func ask(conn net.Conn, step uint16, proof []byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(proofHeader+len(proof)))
	b = binary.BigEndian.AppendUint16(b, uint16(proofKey))
	b = binary.BigEndian.AppendUint16(b, step)
	b = binary.BigEndian.AppendUint32(b, uint32(step))
	b = append(b, 0xff, 0xff)
	_, err := conn.Write(append(b, proof...))
	return err
}

// listen reads the answer to a frame of the proof, which has exactly the length of b.
func listen(conn net.Conn, step uint32, b []byte) error {
	if _, err := io.ReadFull(conn, b); err != nil {
		return fmt.Errorf("%w: %w", ErrSecret, err)
	}
	if int(binary.BigEndian.Uint32(b)) != len(b)-4 || binary.BigEndian.Uint32(b[4:]) != step {
		return ErrSecret
	}
	return nil
}
