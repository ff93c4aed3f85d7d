package fsm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/hashicorp/raft"

	"cordwood/fsm/metadata"
)

// A snapshot is eight bytes of magic, the version as big-endian uint16, the encoded state, and the CRC-32C of all of that
// as big-endian uint32, with nothing behind it.
const (
	snapshotMagic   = "cordwood"
	snapshotVersion = 1
)

// ErrCorruptSnapshot says that a snapshot is not what was written. It is never loaded in part.
var ErrCorruptSnapshot = errors.New("metadata snapshot is corrupt")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot captures the present state; it costs nothing per topic. Refused once the FSM has stopped, so that raft keeps
// the entries that a newer binary can apply.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	if f.stopped != nil {
		return nil, f.stopped
	}
	return &snapshot{state: f.state.Capture()}, nil
}

// Restore replaces the state by that of a snapshot, at once and only if all of it is sound, and publishes a Full delta. An
// FSM that has stopped stays stopped.
func (f *FSM) Restore(src io.ReadCloser) error {
	defer src.Close()
	if f.stopped != nil {
		return f.stopped
	}
	state, err := readSnapshot(src)
	if err != nil {
		return fmt.Errorf("restore metadata: %w", err)
	}
	old := f.image.Load()
	f.state = state
	f.publish(metadata.Delta{Old: old, New: state.Image(), Full: true})
	return nil
}

type snapshot struct{ state *metadata.State }

// Persist writes the snapshot; raft calls it while entries are being applied.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := writeSnapshot(sink, s.state); err != nil {
		return errors.Join(fmt.Errorf("persist metadata snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release has nothing to give back.
func (s *snapshot) Release() {}

func writeSnapshot(w io.Writer, state *metadata.State) error {
	sum := crc32.New(castagnoli)
	out := io.MultiWriter(w, sum)
	head := binary.BigEndian.AppendUint16([]byte(snapshotMagic), snapshotVersion)
	if _, err := out.Write(head); err != nil {
		return err
	}
	if err := state.Encode(out); err != nil {
		return err
	}
	_, err := w.Write(binary.BigEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

func readSnapshot(r io.Reader) (*metadata.State, error) {
	src := &summingReader{r: bufio.NewReaderSize(r, 64<<10), sum: crc32.New(castagnoli)}
	var head [len(snapshotMagic) + 2]byte
	if _, err := io.ReadFull(src, head[:]); err != nil {
		return nil, unsound(err)
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: it starts with %q", ErrCorruptSnapshot, head[:len(snapshotMagic)])
	}
	if v := binary.BigEndian.Uint16(head[len(snapshotMagic):]); v != snapshotVersion {
		if v > snapshotVersion {
			return nil, fmt.Errorf("metadata snapshot of version %d: %w", v, metadata.ErrNewerVersion)
		}
		return nil, fmt.Errorf("%w: version %d", ErrCorruptSnapshot, v)
	}
	state, decodeErr := metadata.DecodeState(src)
	if decodeErr != nil {
		return nil, unsound(decodeErr)
	}
	want := src.sum.Sum32()
	var tail [4]byte
	if _, err := io.ReadFull(src.r, tail[:]); err != nil {
		return nil, unsound(err)
	}
	if got := binary.BigEndian.Uint32(tail[:]); got != want {
		return nil, fmt.Errorf("%w: checksum %08x, computed %08x", ErrCorruptSnapshot, got, want)
	}
	if _, err := src.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the checksum", ErrCorruptSnapshot)
	}
	return state, nil
}

// unsound turns the ways in which bytes can be wrong into ErrCorruptSnapshot. A version that is too new keeps its error:
// without a good checksum it may be either, and both mean that the snapshot is not loaded.
func unsound(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, metadata.ErrCorruptState) {
		return fmt.Errorf("%w: %w", ErrCorruptSnapshot, err)
	}
	return err
}

// summingReader sums what is read through it.
type summingReader struct {
	r   *bufio.Reader
	sum hash.Hash32
}

func (s *summingReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.sum.Write(p[:n])
	return n, err
}
