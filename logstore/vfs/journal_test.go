package vfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is a data directory on the disk behind a journal.
type watched struct {
	t       testing.TB
	data    string
	journal string
	fault   *Fault
}

func watch(t testing.TB) *watched {
	dir := t.TempDir()
	w := &watched{t: t, data: filepath.Join(dir, "data"), journal: filepath.Join(dir, "journal")}
	require.NoError(t, os.Mkdir(w.data, 0o755))
	w.start()
	return w
}

// start begins a process; the one before was killed, so nothing of it is closed.
func (w *watched) start() {
	j, err := OpenJournal(w.data, w.journal)
	require.NoError(w.t, err)
	w.fault = NewFault(OS{}, FaultOptions{Journal: j})
	w.t.Cleanup(func() { _ = j.Close() }) // a second close of the same journal may fail
}

func (w *watched) at(name string) string { return path.Join(w.data, name) }

func (w *watched) drop(mode CrashMode, seed uint64) Dropped {
	d, err := DropUnsynced(w.data, w.journal, mode, seed)
	require.NoError(w.t, err)
	return d
}

// tree is every name below a directory with its content; directories end in a slash.
func tree(t testing.TB, fsys FS, dir string) map[string]string {
	all := map[string]string{}
	var walk func(rel string)
	walk = func(rel string) {
		list, err := fsys.ReadDir(path.Join(dir, rel))
		require.NoError(t, err)
		for _, e := range list {
			name := path.Join(rel, e.Name())
			if e.IsDir() {
				all[name+"/"] = ""
				walk(name)
				continue
			}
			b, err := ReadFile(fsys, path.Join(dir, name), 1<<20)
			require.NoError(t, err)
			all[name] = string(b)
		}
	}
	walk("")
	return all
}

func TestDropTakesWhatWasNotSynced(t *testing.T) {
	w := watch(t)
	f := make1(t, w.fault, w.at("f"), "durable")
	require.NoError(t, f.Sync())
	require.NoError(t, w.fault.SyncDir(w.data))
	write(t, f, 7, " and not")
	make1(t, w.fault, w.at("g"), "entry not synced")
	d := w.drop(CrashLose, 1)
	require.Equal(t, []CutFile{{Path: "f", From: 15, To: 7}}, d.Cut[:1])
	require.Equal(t, []string{"create g"}, d.Undone)
	require.Equal(t, map[string]string{"f": "durable"}, tree(t, OS{}, w.data))
	require.Equal(t, Dropped{}, w.drop(CrashLose, 2), "what is left is durable")
}

func TestDropBringsBackWhatWasReplacedOrRemoved(t *testing.T) {
	w := watch(t)
	require.NoError(t, WriteFile(w.fault, w.at("state"), []byte("old")))
	require.NoError(t, WriteFile(w.fault, w.at("gone"), []byte("here again")))
	require.NoError(t, w.fault.MkdirAll(w.at("d/e")))
	require.NoError(t, w.fault.SyncDir(w.data))
	require.NoError(t, w.fault.SyncDir(w.at("d")))
	require.NoError(t, WriteFile(w.fault, w.at("d/e/f"), []byte("deep")))
	before := tree(t, OS{}, w.data)

	tmp := make1(t, w.fault, w.at("state.tmp"), "new")
	require.NoError(t, tmp.Sync())
	require.NoError(t, w.fault.Rename(w.at("state.tmp"), w.at("state")))
	require.NoError(t, w.fault.Remove(w.at("gone")))
	require.NoError(t, w.fault.Rename(w.at("d"), w.at("d-delete")))
	require.NoError(t, w.fault.RemoveAll(w.at("d-delete")))
	require.Equal(t, map[string]string{"state": "new"}, tree(t, OS{}, w.data))
	w.drop(CrashLose, 1)
	require.Equal(t, before, tree(t, OS{}, w.data))

	// The same again, and this time the directory is synced.
	w.start()
	require.NoError(t, WriteFile(w.fault, w.at("state"), []byte("new")))
	require.NoError(t, w.fault.Remove(w.at("gone")))
	require.NoError(t, w.fault.RemoveAll(w.at("d")))
	require.NoError(t, w.fault.SyncDir(w.data))
	kept, err := os.ReadDir(filepath.Join(w.journal, keptDir))
	require.NoError(t, err)
	require.Empty(t, kept, "what is durably gone takes no room")
	require.Equal(t, Dropped{}, w.drop(CrashLose, 1))
	require.Equal(t, map[string]string{"state": "new"}, tree(t, OS{}, w.data))
}

func TestDropLeavesWhatIsNotInTheJournal(t *testing.T) {
	w := watch(t)
	require.NoError(t, os.WriteFile(w.at("raft.db"), []byte("bolt writes past the journal"), 0o644))
	require.NoError(t, os.WriteFile(w.at("older"), []byte("from before"), 0o644))
	f, err := w.fault.OpenReadWrite(w.at("older"))
	require.NoError(t, err)
	write(t, f, 11, " and after")
	// Also where it stands in a directory whose own entry was not synced.
	require.NoError(t, w.fault.MkdirAll(w.at("new/raft")))
	require.NoError(t, WriteFile(w.fault, w.at("new/raft/known"), []byte("goes with it")))
	require.NoError(t, w.fault.Rename(w.at("new"), w.at("newer")))
	require.NoError(t, os.WriteFile(w.at("newer/raft/raft.db"), []byte("stays"), 0o644))
	w.drop(CrashLose, 1)
	require.Equal(t, map[string]string{"raft.db": "bolt writes past the journal", "older": "from before",
		"new/": "", "new/raft/": "", "new/raft/raft.db": "stays"}, tree(t, OS{}, w.data))
}

func TestDropKnowsTruncations(t *testing.T) {
	w := watch(t)
	f := make1(t, w.fault, w.at("f"), "0123456789")
	require.NoError(t, f.Sync())
	require.NoError(t, w.fault.SyncDir(w.data))
	require.NoError(t, f.Truncate(4))
	write(t, f, 4, "another tail")
	w.drop(CrashLose, 1)
	require.Equal(t, map[string]string{"f": "0123"}, tree(t, OS{}, w.data))

	w.start()
	f, err := w.fault.Create(w.at("f"))
	require.NoError(t, err)
	write(t, f, 0, "emptied")
	w.drop(CrashLose, 1)
	require.Equal(t, map[string]string{"f": ""}, tree(t, OS{}, w.data))
}

func TestASyncSaysNothingAboutBytesWrittenAfterATruncationMeanwhile(t *testing.T) {
	d := newDurable()
	for _, line := range []string{`O 1 "f" -1 0`, `S 1 100 1`, `T 1 50`, `S 1 120 1`} {
		_, err := d.apply(line)
		require.NoError(t, err)
	}
	require.EqualValues(t, 50, d.names["f"].size, "the sync began at mark 1, before the cut")
	_, err := d.apply(`S 1 120 2`)
	require.NoError(t, err)
	require.EqualValues(t, 120, d.names["f"].size)
}

func TestAJournalCutAnywhereIsStillRead(t *testing.T) {
	w := watch(t)
	require.NoError(t, WriteFile(w.fault, w.at("a b\n\"c\""), []byte("x")))
	b, err := os.ReadFile(filepath.Join(w.journal, journalName))
	require.NoError(t, err)
	for n := range b {
		require.NoError(t, os.WriteFile(filepath.Join(w.journal, journalName), b[:n], 0o644))
		_, err := loadDurable(w.journal)
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.journal, journalName), []byte("O nonsense\n"), 0o644))
	_, err = DropUnsynced(w.data, w.journal, CrashLose, 1)
	require.ErrorIs(t, err, errLine)
}

// TestDropAgreesWithTheMemoryDisk makes the same random calls on a watched directory and on Mem, kills processes and
// shortens the journal now and then, and compares what a power cut leaves of both.
func TestDropAgreesWithTheMemoryDisk(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 20 {
		w, m := watch(t), NewMem(nil)
		require.NoError(t, m.MkdirAll("/"))
		var steps []string
		for range 5 + rng.IntN(60) {
			dirs, files := []string{""}, []string{}
			for name := range tree(t, m, "/") {
				if d, ok := strings.CutSuffix(name, "/"); ok {
					dirs = append(dirs, d)
				} else {
					files = append(files, name)
				}
			}
			dir := dirs[rng.IntN(len(dirs))]
			name := path.Join(dir, fmt.Sprintf("n%d", rng.IntN(3)))
			isDir := func(name string) bool { i, err := m.Stat("/" + name); return err == nil && i.IsDir() }
			both := func(step string, do func(FS, string) error) {
				steps = append(steps, step)
				errM, errW := do(m, "/"), do(w.fault, w.data)
				require.Equal(t, errM == nil, errW == nil, "%v: %v, %v", steps, errM, errW)
			}
			switch op := rng.IntN(9); {
			case op <= 1 && !isDir(name): // append, to a new file or an old one
				sync := rng.IntN(2) == 0
				both(fmt.Sprint("append ", name, " sync ", sync), func(f FS, root string) error {
					file, err := f.OpenReadWrite(path.Join(root, name))
					require.NoError(t, err)
					size, err := file.Size()
					require.NoError(t, err)
					write(t, file, size, fmt.Sprintf("%d,", len(steps)))
					if sync {
						require.NoError(t, file.Sync())
					}
					return file.Close()
				})
			case op == 2:
				both("syncdir "+dir, func(f FS, root string) error { return f.SyncDir(path.Join(root, dir)) })
			case op == 3:
				name := path.Join(dir, fmt.Sprintf("d%d", rng.IntN(2)))
				both("mkdir "+name, func(f FS, root string) error { return f.MkdirAll(path.Join(root, name)) })
			case op == 4 && len(files) > 0:
				from := files[rng.IntN(len(files))]
				to := path.Join(path.Dir(from), fmt.Sprintf("n%d", rng.IntN(3)))
				both("rename "+from+" "+to, func(f FS, root string) error { return f.Rename(path.Join(root, from), path.Join(root, to)) })
			case op == 5 && dir != "":
				to := path.Join(path.Dir(dir), fmt.Sprintf("d%d", rng.IntN(2)))
				if _, err := m.Stat("/" + to); err == nil {
					continue
				}
				both("rename "+dir+" "+to, func(f FS, root string) error { return f.Rename(path.Join(root, dir), path.Join(root, to)) })
			case op == 6 && len(files) > 0:
				name := files[rng.IntN(len(files))]
				both("remove "+name, func(f FS, root string) error { return f.Remove(path.Join(root, name)) })
			case op == 7 && dir != "" && rng.IntN(2) == 0:
				both("removeall "+dir, func(f FS, root string) error { return f.RemoveAll(path.Join(root, dir)) })
			case op == 7 && dir != "":
				both("remove "+dir, func(f FS, root string) error { return f.Remove(path.Join(root, dir)) })
			case op == 8:
				steps = append(steps, "killed and started")
				w.start()
				m = m.Crash(CrashKeep, 0)
			}
		}
		require.Equal(t, tree(t, m, "/"), tree(t, OS{}, w.data), "round %d: %v", round, steps)
		w.drop(CrashLose, 0)
		require.Equal(t, tree(t, m.Crash(CrashLose, 0), "/"), tree(t, OS{}, w.data), "round %d: %s", round, strings.Join(steps, "; "))
	}
}

func TestDropTearsBetweenDurableAndWritten(t *testing.T) {
	lengths, holes, undone := map[int64]bool{}, 0, map[int]bool{}
	for seed := range uint64(40) {
		w := watch(t)
		f := make1(t, w.fault, w.at("f"), strings.Repeat("a", 700))
		require.NoError(t, f.Sync())
		require.NoError(t, w.fault.SyncDir(w.data))
		write(t, f, 700, strings.Repeat("b", 20_000))
		make1(t, w.fault, w.at("g"), "x")
		d := w.drop(CrashTear, seed)
		undone[len(d.Undone)] = true
		got := content(t, OS{}, w.at("f"))
		require.GreaterOrEqual(t, len(got), 700)
		require.Equal(t, strings.Repeat("a", 700), got[:700], "seed %d", seed)
		lengths[int64(len(got))] = true
		if strings.Contains(got, "\x00b") {
			holes++
			require.Positive(t, d.Cut[0].Holes)
		}
	}
	require.Greater(t, len(lengths), 20)
	require.Positive(t, holes)
	require.Len(t, undone, 2)
}

func TestTheJournalStaysShort(t *testing.T) {
	w := watch(t)
	f := make1(t, w.fault, w.at("f"), "")
	for i := range 2000 {
		write(t, f, int64(i), "x")
		require.NoError(t, w.fault.opt.Journal.synced(1, int64(i+1), 0))
	}
	require.NoError(t, w.fault.opt.Journal.summarize())
	info, err := os.Stat(filepath.Join(w.journal, journalName))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(300))
	write(t, f, 2000, "lost")
	require.NoError(t, w.fault.SyncDir(w.data))
	w.drop(CrashLose, 1)
	require.Len(t, content(t, OS{}, w.at("f")), 2000)
}

func TestKeptThingsAreBounded(t *testing.T) {
	w := watch(t)
	for i := range keptMost + 20 {
		name := w.at(fmt.Sprint("f", i))
		require.NoError(t, make1(t, w.fault, name, "x").Close())
		require.NoError(t, w.fault.Remove(name))
	}
	kept, err := os.ReadDir(filepath.Join(w.journal, keptDir))
	require.NoError(t, err)
	require.LessOrEqual(t, len(kept), keptMost)
	w.drop(CrashLose, 1)
	require.Empty(t, tree(t, OS{}, w.data))
}

func BenchmarkJournaledSync(b *testing.B) {
	w := watch(b)
	f, err := w.fault.Create(w.at("f"))
	require.NoError(b, err)
	j := w.fault.opt.Journal
	_, isOS := w.fault.inner.(OS)
	require.True(b, isOS)
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		if err := j.synced(1, n, j.mark()); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, f.Close())
}

func FuzzJournal(f *testing.F) {
	f.Add("O 1 \"f\" -1 0\nS 1 5 1\nT 1 2\nR \"f\" \"g\" 0\nU \"g\" 3\nD \".\" 9\nM \"d\"\nC 1\n")
	f.Fuzz(func(t *testing.T, s string) {
		d := newDurable()
		for line := range strings.SplitSeq(s, "\n") {
			if _, err := d.apply(line); err != nil {
				require.ErrorIs(t, err, errLine)
			}
		}
		again := newDurable()
		for line := range strings.SplitSeq(strings.TrimSuffix(string(d.summary()), "\n"), "\n") {
			_, err := again.apply(line)
			require.NoError(t, err)
		}
		require.Equal(t, string(d.summary()), string(again.summary()), "a summary says the same")
	})
}
