package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"cordwood/fsm/metadata"
	"cordwood/logstore"
	"cordwood/logstore/vfs"
)

// TestS43_AnOldCopyOfADiskIsNotTheDisk
func TestS43_AnOldCopyOfADiskIsNotTheDisk(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		committed(t, w, 1)
		snapshot := w.node(B).disk.Crash(vfs.CrashKeep, 1)
		w.kill(B)
		w.boot(B)
		require.True(t, w.trusted(B))
		x := committed(t, w, 2)
		w.kill(B)
		w.node(B).disk = snapshot
		w.boot(B)
		require.Equal(t, metadata.RestartLossyMedia, w.image().Broker(B).Class)
		require.False(t, w.trusted(B))
		w.calm()
		require.True(t, w.trusted(B))
		require.Subset(t, w.names(B), namesOf(x...))
	})
}

// TestS44_ProcessesOnTheSameVolumeAndBootLoseNothing
func TestS44_ProcessesOnTheSameVolumeAndBootLoseNothing(t *testing.T) {
	play(t, quorum, func(t *testing.T, w *World) {
		x := w.put(A, all)
		w.sync(B)
		require.True(t, x.acked())
		w.kill(A, B)
		w.boot(A, B)
		require.True(t, w.trusted(A))
		require.True(t, w.trusted(B))
		w.govern()
		require.Contains(t, []int32{A, B}, w.head().Leader)
		w.calm()
		require.Equal(t, namesOf(x), reads(t, w, w.head().Leader))
		noLoss(t, w)
	})
}

// TestS54_TheLastLeaderComesBackByItsOwnWord
func TestS54_TheLastLeaderComesBackByItsOwnWord(t *testing.T) {
	t.Run("fenced by mistake, again and again", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x := committed(t, w, 3)
			w.power(B, C)
			w.boot(B, C)
			for range 10 {
				w.out(A)
				w.learn()
				require.Equal(t, metadata.Offline, w.image().Safety(w.head()))
				w.in(A)
				w.govern()
				require.Equal(t, A, w.head().Leader)
				require.False(t, w.trusted(B))
			}
			w.calm()
			require.True(t, w.trusted(B))
			require.Equal(t, namesOf(x...), reads(t, w, A))
			noLoss(t, w)
		})
	})
	t.Run("fenced after its report", func(t *testing.T) {
		play(t, quorum, func(t *testing.T, w *World) {
			x := committed(t, w, 3)
			w.kill(A)
			w.out(A)
			w.learn()
			ballot := w.ballot(B, B, C)
			w.out(B)
			require.ErrorIs(t, w.commit(ballot), metadata.ErrNotEligible)
			w.kill(B)
			w.boot(A)
			w.calm()
			require.Contains(t, []int32{A, C}, w.head().Leader)
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
}

// TestS55_AStartThatDiesBeforeItsNoteIsForgottenByNobody
func TestS55_AStartThatDiesBeforeItsNoteIsForgottenByNobody(t *testing.T) {
	t.Run("killed between registration and note", func(t *testing.T) {
		byBoth(t, Setup{}, func(t *testing.T, w *World) {
			x := committed(t, w, 3)
			w.kill(A, B, C)
			for range 5 {
				for _, id := range w.ids() {
					n := w.node(id)
					s := n.enrol()
					require.Equal(t, metadata.RestartProcessCrash, s.reg.Class)
					n.disk = n.disk.Crash(vfs.CrashKeep, 1)
				}
			}
			w.boot(A, B, C)
			for _, id := range w.ids() {
				require.Equal(t, metadata.RestartProcessCrash, w.image().Broker(id).Class)
			}
			w.calm()
			require.Equal(t, namesOf(x...), reads(t, w, w.head().Leader))
			noLoss(t, w)
		})
	})
	t.Run("two processes on one directory", func(t *testing.T) {
		play(t, Setup{}, func(t *testing.T, w *World) {
			committed(t, w, 1)
			_, err := logstore.OpenDir(w.node(A).fault, "/data", logstore.DirOptions{NodeID: A, BootID: "boot", Now: w.clock})
			require.ErrorIs(t, err, vfs.ErrLocked)
			committed(t, w, 1)
		})
	})
}
