package metadata

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"cordwood/logstore/record"
)

// The state in a snapshot is a row of frames: a type byte, the length of the body as big-endian uint32, a JSON body. The
// head comes first, then brokers, topics and remembered answers in the order of their keys, so that equal states are equal
// bytes, and an end frame that counts the others.
const (
	frameHead    = 1
	frameBroker  = 2
	frameTopic   = 3
	frameRequest = 4
	frameEnd     = 255
)

// maxFrame bounds what one frame may claim: far above a topic of MaxPartitions.
const maxFrame = 1 << 30

// ErrCorruptState says that bytes are no encoded state.
var ErrCorruptState = errors.New("metadata state is corrupt")

type headFrame struct {
	Index       uint64 `json:"index"`
	Level       int32  `json:"level"`
	ClusterID   string `json:"clusterId"`
	NextPID     int64  `json:"nextProducerId"`
	NextRequest uint64 `json:"nextRequest"`
}

type requestFrame struct {
	ID     RequestID       `json:"id"`
	Seq    uint64          `json:"seq"`
	Result Result          `json:"result"`
	Err    storedRefusal   `json:"err"`
	Items  []storedRefusal `json:"items"`
}

type endFrame struct {
	Frames int `json:"frames"`
}

// Encode writes the state. It may run while the State that this one was captured from goes on.
func (s *State) Encode(w io.Writer) error {
	e := frameWriter{w: bufio.NewWriterSize(w, 64<<10)}
	e.frame(frameHead, headFrame{s.head.index, s.head.level, s.head.clusterID, s.head.nextPID, s.requests.next})
	for b := range s.head.Brokers() {
		e.frame(frameBroker, b)
	}
	for t := range s.head.Topics() {
		e.frame(frameTopic, t)
	}
	s.requests.order.Scan(func(seq uint64, id string) bool {
		r, _ := s.requests.answers.Get(id)
		e.request(RequestID([]byte(id)), seq, r)
		return e.err == nil
	})
	e.frame(frameEnd, endFrame{e.count})
	if e.err == nil {
		e.err = e.w.Flush()
	}
	if e.err != nil {
		return fmt.Errorf("encode metadata: %w", e.err)
	}
	return nil
}

type frameWriter struct {
	w     *bufio.Writer
	count int
	err   error
}

func (e *frameWriter) frame(kind byte, v any) {
	if e.err != nil {
		return
	}
	body, err := json.Marshal(v)
	if err == nil && len(body) > maxFrame {
		err = fmt.Errorf("frame of type %d has %d bytes, %d are allowed", kind, len(body), maxFrame)
	}
	if err != nil {
		e.err = err
		return
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
	if _, e.err = e.w.Write(head); e.err == nil {
		_, e.err = e.w.Write(body)
	}
	e.count++
}

func (e *frameWriter) request(id RequestID, seq uint64, r Result) {
	f := requestFrame{ID: id, Seq: seq, Result: r}
	var err error
	if f.Err, err = storeRefusal(r.Err); err != nil {
		e.err = err
		return
	}
	for _, item := range r.Items {
		stored, err := storeRefusal(item)
		if err != nil {
			e.err = err
			return
		}
		f.Items = append(f.Items, stored)
	}
	e.frame(frameRequest, f)
}

// DecodeState reads a state to its end frame and no further. The error is ErrNewerVersion where a newer binary wrote it,
// ErrCorruptState where the frames are not what Encode writes, else the reader's. Memory grows with what is read, not
// with what a frame claims.
func DecodeState(r io.Reader) (*State, error) {
	d := stateReader{r: r, s: NewState()}
	for {
		done, err := d.next()
		if err != nil {
			return nil, fmt.Errorf("decode metadata: frame %d: %w", d.count, err)
		}
		if done {
			d.s.published = d.s.copyHead()
			d.s.pending = newPending()
			return d.s, nil
		}
		d.count++
	}
}

type stateReader struct {
	r     io.Reader
	s     *State
	count int
}

func (d *stateReader) next() (done bool, err error) {
	var head [5]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		return false, err
	}
	kind, size := head[0], binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return false, fmt.Errorf("%w: frame of %d bytes", ErrCorruptState, size)
	}
	body, err := io.ReadAll(io.LimitReader(d.r, int64(size)))
	if err != nil {
		return false, err
	}
	if len(body) < int(size) {
		return false, io.ErrUnexpectedEOF
	}
	if (d.count == 0) != (kind == frameHead) {
		return false, fmt.Errorf("%w: frame of type %d at place %d", ErrCorruptState, kind, d.count)
	}
	switch kind {
	case frameHead:
		return false, d.head(body)
	case frameBroker:
		return false, d.broker(body)
	case frameTopic:
		return false, d.topic(body)
	case frameRequest:
		return false, d.request(body)
	case frameEnd:
		return true, d.end(body)
	}
	return false, fmt.Errorf("frame of type %d: %w", kind, ErrNewerVersion)
}

func (d *stateReader) head(body []byte) error {
	var f headFrame
	if err := frameBody(body, &f); err != nil {
		return err
	}
	h := &d.s.head
	h.index, h.level, h.clusterID, h.nextPID = f.Index, f.Level, f.ClusterID, f.NextPID
	d.s.requests.next = f.NextRequest
	return nil
}

func (d *stateReader) broker(body []byte) error {
	b := new(Broker)
	if err := frameBody(body, b); err != nil {
		return err
	}
	if d.s.head.Broker(b.ID) != nil {
		return fmt.Errorf("%w: node %d stands twice", ErrCorruptState, b.ID)
	}
	d.s.head.brokers.Set(b.ID, b)
	return nil
}

func (d *stateReader) topic(body []byte) error {
	t := new(Topic)
	if err := frameBody(body, t); err != nil {
		return err
	}
	if d.s.head.Topic(t.Name) != nil || d.s.head.TopicByID(t.ID) != nil {
		return fmt.Errorf("%w: topic %s or its id stands twice", ErrCorruptState, t.Name)
	}
	for i, p := range t.Partitions {
		if p == nil {
			return fmt.Errorf("%w: topic %s has no partition %d", ErrCorruptState, t.Name, i)
		}
		p.ID = record.PartitionID{Topic: t.ID, Partition: int32(i)}
	}
	d.s.indexTopic(t)
	return nil
}

func (d *stateReader) request(body []byte) error {
	var f requestFrame
	if err := frameBody(body, &f); err != nil {
		return err
	}
	if _, known := d.s.requests.find(f.ID); known || f.ID.IsZero() || f.Seq >= d.s.requests.next {
		return fmt.Errorf("%w: request at place %d", ErrCorruptState, f.Seq)
	}
	var err error
	if f.Result.Err, err = f.Err.load(); err != nil {
		return err
	}
	if f.Items != nil {
		f.Result.Items = make([]error, len(f.Items))
	}
	for i, stored := range f.Items {
		if f.Result.Items[i], err = stored.load(); err != nil {
			return err
		}
	}
	d.s.requests.restore(f.ID, f.Seq, f.Result)
	return nil
}

func (d *stateReader) end(body []byte) error {
	var f endFrame
	if err := frameBody(body, &f); err != nil {
		return err
	}
	if f.Frames != d.count {
		return fmt.Errorf("%w: %d frames of %d", ErrCorruptState, d.count, f.Frames)
	}
	return nil
}

func frameBody(body []byte, v any) error {
	if err := strictJSON(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrCorruptState, err)
	}
	return nil
}
