package containers

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAContainerTellsItsAddressesAndVolume(t *testing.T) {
	all, err := decodeContainers([]byte(`[{"Id":"c1","State":{"Running":true},"Config":{"Labels":{"cordwood.torture.service":"n1"}},
		"Mounts":[{"Type":"bind","Source":"/x","Destination":"/data"},{"Type":"volume","Name":"v","Destination":"/var/lib/cordwood"}],
		"NetworkSettings":{"Networks":{"b":{"IPAddress":"10.0.0.2"},"a":{"IPAddress":"10.1.0.2"},"c":{"IPAddress":""}}}}]`))
	require.NoError(t, err)
	c := all[0]
	require.Equal(t, "n1", c.Config.Labels[serviceLabel])
	require.Equal(t, []string{"10.1.0.2", "10.0.0.2"}, c.addresses())
	require.Equal(t, "v", c.volume("/var/lib/cordwood"))
	require.Empty(t, c.volume("/data"))
	_, err = decodeContainers([]byte("Error"))
	require.Error(t, err)
	_, err = decodeImage([]byte("[]"))
	require.Error(t, err)
}

func TestOnlyProjectsOfDeadProcessesOfThisMachineAreRemoved(t *testing.T) {
	us := ourselves()
	again, ok := parseOwner(us.String())
	require.True(t, ok)
	require.Equal(t, us, again)
	dead, reused, elsewhere := us, us, us
	dead.pid = 1 << 30
	reused.start = "1"
	elsewhere.host, elsewhere.pid = "other/pid:[1]", dead.pid
	out := strings.Join([]string{"mine\t" + us.String(), "dead\t" + dead.String(), "reused\t" + reused.String(), "far\t" + elsewhere.String(), "odd\tx", "\t" + dead.String()}, "\n")
	require.Equal(t, []string{"dead", "reused"}, deadProjects(out, us))
}

func TestAnAgentRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for line, says := range map[string]string{
		`{"drop":["10.0.0.1"],"lose":{"10.0.0.2":30}}`: "",
		`{"drop":["n1"]}`:           "no IPv4 address",
		`{"drop":["::1"]}`:          "no IPv4 address",
		`{"lose":{"10.0.0.2":101}}`: "101 per cent",
		`{"lose":{"x":1}}`:          "no IPv4 address",
		`cut`:                       "not understood",
	} {
		_, err := decodeWishes([]byte(line))
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, errWish)
		require.ErrorContains(t, err, says)
	}
}

func TestAReaperThatWasToldGoodbyeRemovesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Reap(t.Context(), bytes.NewBufferString(goodbye+"\n"), "none", dir))
	_, err := os.Stat(dir)
	require.NoError(t, err)
}

func FuzzWishes(f *testing.F) {
	f.Add([]byte(`{"drop":["10.0.0.1"],"lose":{"10.0.0.2":30}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		w, err := decodeWishes(line)
		if err != nil {
			return
		}
		for _, share := range w.Lose {
			require.LessOrEqual(t, share, 100)
		}
	})
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte(`[{"Id":"c1","NetworkSettings":{"Networks":{"b":{"IPAddress":"10.0.0.2"}}}}]`))
	f.Add([]byte(`[{"Config":{"Entrypoint":["/cordwood"],"User":"1"}}]`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if all, err := decodeContainers(text); err == nil {
			for _, c := range all {
				c.addresses()
				c.volume("/x")
			}
		}
		_, _ = decodeImage(text)
	})
}

func FuzzOwner(f *testing.F) {
	f.Add(ourselves().String())
	f.Fuzz(func(t *testing.T, text string) {
		if o, ok := parseOwner(text); ok {
			again, ok := parseOwner(o.String())
			require.True(t, ok)
			require.Equal(t, o, again)
		}
	})
}
