package vfs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAClockStandsApartAsItsFileSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warned []string
		m := NewMem(nil)
		c := NewClock(m, "clock", func(err error) { warned = append(warned, err.Error()) })
		write := func(s string) {
			f, err := m.Create("clock")
			require.NoError(t, err)
			_, err = f.WriteAt([]byte(s), 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		require.Equal(t, time.Now().UnixNano(), c.Now().UnixNano(), "without a file it is the machine's")
		for _, d := range []time.Duration{-90 * time.Minute, 100 * time.Millisecond, 0} {
			write(d.String() + "\n")
			time.Sleep(clockEvery)
			require.Equal(t, d, c.Offset())
			require.Equal(t, time.Now().Add(d).UnixNano(), c.Now().UnixNano())
		}
		write("5s")
		require.Zero(t, c.Offset(), "it is not looked at more often")
		time.Sleep(clockEvery)
		require.Equal(t, 5*time.Second, c.Offset())
		for range 3 {
			write("soon")
			time.Sleep(clockEvery)
			require.Equal(t, 5*time.Second, c.Offset(), "what cannot be read changes nothing")
		}
		require.Len(t, warned, 1, "and is told once")
		require.Contains(t, warned[0], `"soon"`)
		require.NoError(t, m.Remove("clock"))
		time.Sleep(clockEvery)
		require.Zero(t, c.Offset())
	})
}

func TestAClockHasNoMonotonicPart(t *testing.T) {
	c := NewClock(NewMem(nil), "clock", func(error) {})
	require.NotContains(t, fmt.Sprint(c.Now()), "m=")
}
