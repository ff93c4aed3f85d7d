package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRulesFailTheCallsTheyName(t *testing.T) {
	f := NewFault(NewMem(nil), FaultOptions{})
	file := make1(t, f, "/a/../x.log", "")
	require.NoError(t, f.SetRules(
		Rule{Op: OpWrite, Path: "*.log", Skip: 1, Times: 2, Error: "EIO", Short: 2},
		Rule{Op: OpSync, Error: "ENOSPC"},
		Rule{Op: OpRename, Path: "d/*", Error: "EDQUOT"},
	))
	for i, want := range []error{nil, syscall.EIO, syscall.EIO, nil} {
		n, err := file.WriteAt([]byte("abcd"), 0)
		require.ErrorIs(t, errors.Join(err), want, "write %d", i)
		require.Equal(t, map[bool]int{true: 4, false: 2}[want == nil], n)
	}
	require.ErrorIs(t, file.Sync(), syscall.ENOSPC)
	require.NoError(t, make1(t, f, "/y.index", "").Close())
	require.ErrorIs(t, f.Rename("/d/y", "/z"), syscall.EDQUOT)
	require.NoError(t, f.Rename("/y.index", "/z"))
	require.Error(t, f.SetRules(Rule{Op: "wirte"}))
	require.Error(t, f.SetRules(Rule{Error: "EOOPS"}))
	require.Error(t, f.SetRules(Rule{Path: "["}))
	require.Error(t, f.SetRules(Rule{Skip: -1}))
}

// TestEveryCallCanFail fails each call of a small story in turn, and each failure is seen.
func TestEveryCallCanFail(t *testing.T) {
	story := func(f *Fault) error { return WriteFile(f, "/f", []byte("x")) }
	count := NewFault(NewMem(nil), FaultOptions{})
	require.NoError(t, story(count))
	calls := count.Calls(OpChange)
	require.EqualValues(t, 5, calls, "create, write, sync, rename, syncdir")
	require.GreaterOrEqual(t, count.Calls(OpAny), calls)
	for n := range int(calls) {
		m := NewMem(nil)
		f := NewFault(m, FaultOptions{})
		require.NoError(t, f.SetRules(Rule{Op: OpChange, Skip: n, Times: 1, Error: "EIO"}))
		require.ErrorIs(t, story(f), syscall.EIO, "call %d", n)
		require.NoError(t, story(f), "only that one")
	}
}

func TestAFailedSyncMakesNothingDurable(t *testing.T) {
	m := NewMem(nil)
	f := NewFault(m, FaultOptions{})
	file := make1(t, f, "/f", "x")
	require.NoError(t, f.SyncDir("/"))
	require.NoError(t, f.SetRules(Rule{Op: OpSync, Error: "EIO"}))
	require.Error(t, file.Sync())
	require.Equal(t, "", content(t, m.Crash(CrashLose, 0), "/f"))
}

func TestDelaysHoldACallBack(t *testing.T) {
	f := NewFault(NewMem(nil), FaultOptions{})
	require.NoError(t, f.SetRules(Rule{Op: OpMkdir, Delay: Duration(30 * time.Millisecond)}))
	start := time.Now()
	require.NoError(t, f.MkdirAll("/d"))
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
}

func TestTheRulesFileIsReadAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.json")
	dir := filepath.ToSlash(t.TempDir())
	var warned error
	f := NewFault(OS{}, FaultOptions{RulesFile: name, Warn: func(err error) { warned = err }})
	until := func(what string, ok func() bool) {
		for deadline := time.Now().Add(10 * time.Second); !ok(); {
			require.True(t, time.Now().Before(deadline), what)
		}
	}
	fails := func() bool { _, _, err := f.Usage(dir); return errors.Is(err, syscall.EIO) }
	require.False(t, fails())
	require.NoError(t, os.WriteFile(name, []byte(`[{"op": "usage", "error": "EIO", "delay": "1ms"}]`), 0o644))
	until("the rule is in force", fails)
	require.NoError(t, os.WriteFile(name, []byte(`[{"op": "usage", "eror": "EIO"}]`), 0o644))
	until("somebody is told", func() bool { require.True(t, fails(), "the old rules stay"); return warned != nil })
	require.NoError(t, os.Remove(name))
	until("no file, no rules", func() bool { return !fails() })
	require.NoError(t, f.Close())
}

func TestFaultKeepsSendfile(t *testing.T) {
	w := watch(t)
	f := make1(t, w.fault, w.at("f"), "x")
	_, ok := f.(syscall.Conn)
	require.True(t, ok)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	f = make1(t, NewFault(NewMem(nil), FaultOptions{}), "/f", "x")
	_, ok = f.(syscall.Conn)
	require.False(t, ok)
}

func TestFaultIsAFileSystem(t *testing.T) {
	onEach(t, func(t *testing.T, inner FS, dir string) {
		f := NewFault(inner, FaultOptions{})
		name := dir + "/f"
		require.NoError(t, WriteFile(f, name, []byte("x")))
		require.Equal(t, "x", content(t, f, name))
		info, err := f.Stat(name)
		require.NoError(t, err)
		require.NoError(t, f.Chtimes(name, info.ModTime()))
		list, err := f.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, list, 1)
		l, err := f.Lock(dir + "/.lock")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		file, err := f.OpenReadWrite(name)
		require.NoError(t, err)
		require.NoError(t, file.Truncate(0))
		require.NoError(t, file.Close())
		require.NoError(t, f.MkdirAll(dir+"/a/b"))
		require.NoError(t, f.RemoveAll(dir+"/a"))
		require.NoError(t, f.Remove(name))
		_, err = f.Open(name)
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func FuzzParseRules(f *testing.F) {
	f.Add([]byte(`[{"op": "write", "path": "*.log", "skip": 1, "times": 2, "error": "EIO", "short": 3, "delay": "5ms"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rules, err := ParseRules(b)
		if err == nil {
			require.NoError(t, NewFault(NewMem(nil), FaultOptions{}).SetRules(rules...))
		}
	})
}

func TestDevKeepsItsThingsBesideTheData(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	f, err := Dev(data+"/", nil)
	require.NoError(t, err)
	require.NoError(t, f.MkdirAll(data))
	require.NoError(t, WriteFile(f, data+"/a", []byte("x")))
	make1(t, f, data+"/b", "y")
	require.NoError(t, f.Close())
	d, err := DropUnsynced(data, JournalDir(data), CrashLose, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"create b"}, d.Undone)
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, filepath.Dir(data), filepath.Dir(RulesFile(data)))
}

func TestWhatIsWrittenForANodeInDevelopmentModeIsWhatItDoes(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	f, err := Dev(data, func(err error) { t.Error(err) })
	require.NoError(t, err)
	c := NewClock(OS{}, ClockFile(data), func(err error) { t.Error(err) })
	require.NoError(t, f.MkdirAll(data))
	until := func(what string, ok func() bool) {
		for deadline := time.Now().Add(10 * time.Second); !ok(); {
			require.True(t, time.Now().Before(deadline), what)
		}
	}
	fails := func() bool { return errors.Is(WriteFile(f, data+"/a", []byte("x")), syscall.ENOSPC) }
	require.NoError(t, WriteRules(data), "there are none to end")
	require.NoError(t, WriteRules(data, Rule{Op: OpWrite, Path: "*.tmp", Error: "ENOSPC", Delay: Duration(time.Millisecond)}))
	until("the rule is in force", fails)
	require.NoError(t, WriteRules(data))
	until("no rules end it", func() bool { return !fails() })
	require.NoError(t, WriteClock(data, -time.Hour))
	until("the clock stands behind", func() bool { return c.Offset() == -time.Hour })
	require.NoError(t, f.Close())
}
