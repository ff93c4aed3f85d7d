package api

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"

	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
	"cordwood/logstore/record"
	"cordwood/transport"
)

// fetchEncoder writes a Fetch answer around its records, so that they leave as file ranges and are never copied. What
// it writes is byte for byte what kmsg would; a test compares them for every version.
type fetchEncoder struct {
	version  int16
	code     int16 // of the whole answer
	session  int32
	sequence int64          // a follower's request number, -1 none
	hints    *hintedLeaders // nodes for NodeEndpoints, nil none

	b    []byte
	cuts []cut
}

// cut is a place in the encoded bytes behind which file ranges go.
type cut struct {
	at    int
	spans []record.Span
}

func (e *fetchEncoder) flexible() bool { return e.version >= 12 }

// encode writes the answer for parts; neighbours of one topic share its entry.
func (e *fetchEncoder) encode(parts []fetchPart) []transport.Piece {
	e.b = make([]byte, 0, 64+128*len(parts))
	e.b = kbin.AppendInt32(e.b, 0) // throttle
	if e.version >= 7 {
		e.b = kbin.AppendInt16(e.b, e.code)
		e.b = kbin.AppendInt32(e.b, e.session)
	}
	topics := 0
	for i := range parts {
		if i == 0 || !parts[i].key.sameTopic(&parts[i-1].key) {
			topics++
		}
	}
	e.length(topics)
	for i := 0; i < len(parts); {
		end := i + 1
		for end < len(parts) && parts[end].key.sameTopic(&parts[i].key) {
			end++
		}
		e.topic(parts[i:end])
		i = end
	}
	if e.flexible() {
		e.answerTags()
	}
	return e.pieces()
}

// failed lists the error codes of an answer; nil, without an allocation, where it has none.
func (e *fetchEncoder) failed(parts []fetchPart) (codes []int16) {
	if e.code != 0 {
		codes = append(codes, e.code)
	}
	for i := range parts {
		if parts[i].code != 0 {
			codes = append(codes, parts[i].code)
		}
	}
	return codes
}

// pieces cuts the encoded bytes at the records.
func (e *fetchEncoder) pieces() []transport.Piece {
	n := 1
	for i := range e.cuts {
		n += len(e.cuts[i].spans)
	}
	out := make([]transport.Piece, 0, n)
	from := 0
	for _, c := range e.cuts {
		head := e.b[from:c.at]
		for _, s := range c.spans {
			out = append(out, transport.Piece{Bytes: head, Span: s})
			head = nil
		}
		from = c.at
	}
	return append(out, transport.Piece{Bytes: e.b[from:]})
}

// length writes the length of an array that is not null.
func (e *fetchEncoder) length(n int) {
	if e.flexible() {
		e.b = kbin.AppendUvarint(e.b, uint32(n)+1)
	} else {
		e.b = kbin.AppendInt32(e.b, int32(n))
	}
}

func (e *fetchEncoder) topic(parts []fetchPart) {
	k := &parts[0].key
	switch {
	case e.version >= 13:
		e.b = append(e.b, k.id[:]...)
	case e.flexible():
		e.b = kbin.AppendCompactString(e.b, k.topic)
	default:
		e.b = kbin.AppendString(e.b, k.topic)
	}
	e.length(len(parts))
	for i := range parts {
		e.partition(&parts[i])
	}
	if e.flexible() {
		e.b = append(e.b, 0)
	}
}

func (e *fetchEncoder) partition(p *fetchPart) {
	e.b = kbin.AppendInt32(e.b, p.key.partition)
	e.b = kbin.AppendInt16(e.b, p.code)
	e.b = kbin.AppendInt64(e.b, p.hw)
	e.b = kbin.AppendInt64(e.b, p.lso)
	if e.version >= 5 {
		e.b = kbin.AppendInt64(e.b, p.logStart)
	}
	e.aborted(p.aborted)
	if e.version >= 11 {
		e.b = kbin.AppendInt32(e.b, -1) // preferred read replica
	}
	e.length(int(p.bytes)) // never null: old clients do not take it
	if p.bytes > 0 {
		e.cuts = append(e.cuts, cut{len(e.b), p.spans})
	} else {
		for _, s := range p.spans {
			s.Release()
		}
	}
	if e.flexible() {
		e.partitionTags(p)
	}
}

func (e *fetchEncoder) aborted(list []partition.AbortedTransaction) {
	if list == nil {
		if e.flexible() {
			e.b = append(e.b, 0)
		} else {
			e.b = kbin.AppendInt32(e.b, -1)
		}
		return
	}
	e.length(len(list))
	for _, a := range list {
		e.b = kbin.AppendInt64(e.b, a.ProducerID)
		e.b = kbin.AppendInt64(e.b, a.FirstOffset)
		if e.flexible() {
			e.b = append(e.b, 0)
		}
	}
}

// partitionTags writes the tagged fields, rising numbers; sizes count the tag section inside.
func (e *fetchEncoder) partitionTags(p *fetchPart) {
	count := 0
	hint := p.leader != -1 || p.leaderEpoch != -1
	for _, there := range []bool{p.diverging != nil, hint, p.state != nil} {
		if there {
			count++
		}
	}
	e.b = append(e.b, byte(count))
	if d := p.diverging; d != nil {
		e.b = append(e.b, 0, 13)
		e.b = kbin.AppendInt32(e.b, d.Epoch)
		e.b = kbin.AppendInt64(e.b, d.End)
		e.b = append(e.b, 0)
	}
	if hint {
		e.b = append(e.b, 1, 9)
		e.b = kbin.AppendInt32(e.b, p.leader)
		e.b = kbin.AppendInt32(e.b, p.leaderEpoch)
		e.b = append(e.b, 0)
	}
	if p.state != nil {
		e.tag(partition.TagFetchState, partition.EncodeFetchState(*p.state))
	}
}

func (e *fetchEncoder) tag(number uint32, b []byte) {
	e.b = kbin.AppendUvarint(e.b, number)
	e.b = kbin.AppendUvarint(e.b, uint32(len(b)))
	e.b = append(e.b, b...)
}

// answerTags writes NodeEndpoints and the follower's request number.
func (e *fetchEncoder) answerTags() {
	var nodes []byte
	n := 0
	if e.hints != nil {
		e.hints.each(func(node int32, at metadata.Endpoint, rack *string) {
			n++
			nodes = kbin.AppendInt32(nodes, node)
			nodes = kbin.AppendCompactString(nodes, at.Host)
			nodes = kbin.AppendInt32(nodes, at.Port)
			nodes = kbin.AppendCompactNullableString(nodes, rack)
			nodes = append(nodes, 0)
		})
	}
	count := byte(0)
	if n > 0 {
		count++
	}
	if e.sequence != -1 {
		count++
	}
	e.b = append(e.b, count)
	if n > 0 {
		head := binary.AppendUvarint(nil, uint64(n)+1)
		e.tag(0, append(head, nodes...))
	}
	if e.sequence != -1 {
		e.tag(partition.TagFetchSequence, partition.EncodeInt64(e.sequence))
	}
}
