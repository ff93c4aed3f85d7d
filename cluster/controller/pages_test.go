package controller

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// storeDir makes raft's directory with entries of many pages, one of which is longer than a page, some of them deleted again.
func storeDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, raftFile), BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}})
	require.NoError(t, err)
	s := newLatch(bolt, func(err error) { t.Error(err) }, nil)
	for i := uint64(1); i <= 120; i++ {
		e := &raft.Log{Index: i, Term: 1 + i/50, Data: fmt.Appendf(nil, "what was decided, number %d, and more of it", i), AppendedAt: time.UnixMilli(int64(i))}
		if i == 70 {
			e.Data = bytes.Repeat(e.Data, 300)
		}
		require.NoError(t, s.StoreLog(e))
	}
	require.NoError(t, s.DeleteRange(1, 20))
	require.NoError(t, s.SetUint64([]byte("CurrentTerm"), 3))
	require.NoError(t, s.SetUint64([]byte("LastVoteTerm"), 3))
	require.NoError(t, s.Set([]byte("LastVoteCand"), []byte("2@abc")))
	require.NoError(t, bolt.Close())
	return dir
}

// whole reads all that a store has through checkPages, and checks it as the latch does; an error says that it is damaged.
func whole(b []byte) (map[string]string, error) {
	all := map[string]string{}
	err := checkPages(bytes.NewReader(b), int64(len(b)), func(bucket string, k, v []byte) error {
		if bucket != "conf" {
			all[bucket+string(k)] = string(v) // entries are summed: see below
			return nil
		}
		x, err := unsealed(k, v)
		all[bucket+string(k)] = string(x)
		return err
	})
	return all, err
}

// Only what is in no page's structure may change unseen, and of that all that matters has a checksum: bytes of entries, whose
// sums and indexes are looked at where raft reads them, and when they were appended.
func TestNoFlippedBitOfRaftsFileChangesWhatItHoldsUnseen(t *testing.T) {
	dir := storeDir(t)
	b, err := os.ReadFile(filepath.Join(dir, raftFile))
	require.NoError(t, err)
	want, err := whole(b)
	require.NoError(t, err)
	require.Len(t, want, 103)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	found, same, entries := 0, 0, 0
	for range 6000 {
		at := rng.IntN(len(b))
		bit := byte(1) << rng.IntN(8)
		b[at] ^= bit
		got, err := whole(b)
		switch {
		case err != nil:
			require.ErrorIs(t, err, errStoreDamaged)
			found++
		case fmt.Sprint(got) == fmt.Sprint(want):
			same++
		default:
			require.Len(t, got, len(want), "byte %d", at)
			for k := range want {
				switch v, there := got[k]; {
				case v == want[k]:
				case strings.HasPrefix(k, "logs"):
					entries++
				case there: // its sum looks like none: then it is too long for a number, and no candidate's name
					require.Len(t, v, len(want[k])+valueTail, "byte %d: a value of raft's", at)
				default: // under a name that is refused
					for other := range got {
						if _, same := want[other]; !same {
							require.Error(t, raftsOwn("conf", []byte(strings.TrimPrefix(other, "conf"))), "byte %d", at)
						}
					}
				}
			}
		}
		b[at] ^= bit
	}
	require.Positive(t, found)
	require.Positive(t, same, "free pages")
	require.Positive(t, entries)
}

func TestAStoreThatForgotIsRefusedAndANewOneIsNot(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, checkStore(dir, false), "a new node")
	require.ErrorIs(t, checkStore(dir, true), errStoreDamaged)
	require.NoError(t, os.WriteFile(filepath.Join(dir, raftFile), nil, 0o600))
	require.NoError(t, checkStore(dir, false))
	require.ErrorIs(t, checkStore(dir, true), errStoreDamaged)
	snapshot := filepath.Join(dir, "snapshots", "2-40-1700000000000")
	require.NoError(t, os.MkdirAll(snapshot, 0o755))
	require.ErrorIs(t, checkStore(dir, false), errStoreDamaged, "it has a snapshot: it was in a cluster")

	dir = storeDir(t)
	require.NoError(t, checkStore(dir, true))
	name := filepath.Join(dir, raftFile)
	info, err := os.Stat(name)
	require.NoError(t, err)
	for _, n := range []int64{info.Size() / 4, 4096, 1} {
		require.NoError(t, os.Truncate(name, n))
		require.ErrorIs(t, checkStore(dir, true), errStoreDamaged, "cut to %d bytes", n)
	}
}

func TestWhatTheStoreGivesIsWhatItWasGiven(t *testing.T) {
	in := raft.NewInmemStore()
	l := newLatch(in, func(error) {}, nil)
	given := raft.Log{Index: 1, Term: 2, Data: []byte("x")}
	require.NoError(t, l.StoreLog(&given))
	require.Nil(t, given.Extensions, "others have it in hand")
	var e raft.Log
	require.NoError(t, l.GetLog(1, &e))
	require.Equal(t, given, e)

	var kept raft.Log
	require.NoError(t, in.GetLog(1, &kept))
	for _, spoil := range []func(*raft.Log){func(e *raft.Log) { e.Term++ }, func(e *raft.Log) { e.Data = []byte("y") }, func(e *raft.Log) { e.Type++ }} {
		broken := kept
		spoil(&broken)
		require.NoError(t, in.StoreLog(&broken))
		require.ErrorIs(t, l.GetLog(1, &e), errStoreDamaged)
	}
	require.NoError(t, in.StoreLog(&raft.Log{Index: 1, Term: 7}))
	require.NoError(t, l.GetLog(1, &e), "an entry of a version that wrote no sums")

	require.NoError(t, l.SetUint64([]byte("n"), 9))
	n, err := l.GetUint64([]byte("n"))
	require.NoError(t, err)
	require.EqualValues(t, 9, n)
	b, err := in.Get([]byte("n"))
	require.NoError(t, err)
	require.EqualValues(t, 9, binary.BigEndian.Uint64(b), "older versions read it, too")
	b[7] ^= 1
	_, err = l.GetUint64([]byte("n"))
	require.ErrorIs(t, err, errStoreDamaged)
	require.NoError(t, in.Set([]byte("old"), binary.BigEndian.AppendUint64(nil, 4)))
	n, err = l.GetUint64([]byte("old"))
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
}

// A page that is said to hold less would be a log whose end was never written, by a node that voted for it.
func TestAPageThatIsSaidToHoldLessIsRefused(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(storeDir(t), raftFile))
	require.NoError(t, err)
	want, err := whole(b)
	require.NoError(t, err)
	const size = 4096
	refused := 0
	for at := 2 * size; at+size <= len(b); at += size {
		count := binary.LittleEndian.Uint16(b[at+10:])
		if kind := binary.LittleEndian.Uint16(b[at+8:]); count == 0 || kind != leafPage && kind != branchPage {
			continue
		}
		for _, less := range []uint16{0, count / 2, count - 1} {
			binary.LittleEndian.PutUint16(b[at+10:], less)
			got, err := whole(b)
			if err != nil {
				require.ErrorIs(t, err, errStoreDamaged)
				refused++
				continue
			}
			require.True(t, maps.Equal(want, got), "page %d is in use", at/size)
		}
		binary.LittleEndian.PutUint16(b[at+10:], count)
	}
	require.Positive(t, refused)
}

func TestEveryFileThatTheStoreLeavesIsSound(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	name := filepath.Join(dir, raftFile)
	first, next := uint64(1), uint64(1)
	for range 25 {
		bolt, err := raftboltdb.New(raftboltdb.Options{Path: name, NoSync: true, BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}})
		require.NoError(t, err)
		s := newLatch(bolt, func(err error) { t.Error(err) }, nil)
		require.NoError(t, s.SetUint64([]byte("CurrentTerm"), rng.Uint64()))
		for range rng.IntN(60) {
			switch kept := next - first; {
			case kept > 0 && rng.IntN(8) == 0: // behind a snapshot, at times all of it
				n := 1 + rng.Uint64N(kept)
				require.NoError(t, s.DeleteRange(first, first+n-1))
				first += n
			case kept > 0 && rng.IntN(8) == 0: // another leader's
				n := 1 + rng.Uint64N(min(kept, 5))
				require.NoError(t, s.DeleteRange(next-n, next-1))
				next -= n
			default:
				var es []*raft.Log
				for range 1 + rng.IntN(20) {
					size := rng.IntN(300)
					if rng.IntN(30) == 0 {
						size = rng.IntN(20_000)
					}
					es = append(es, &raft.Log{Index: next, Term: 1, Data: bytes.Repeat([]byte{7}, size)})
					next++
				}
				require.NoError(t, s.StoreLogs(es))
			}
		}
		require.NoError(t, s.StoreLog(&raft.Log{Index: next, Term: 1}))
		next++
		require.NoError(t, bolt.Close())
		require.NoError(t, checkStore(dir, true))
	}
}
