package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	recorded "cordwood/integration/history"
)

func TestTortureRefusesWhatItCannotDoInOneSentence(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--nodes", "2"}, exitUsage, "--nodes 2: torture takes 3 to 9 nodes"},
		{[]string{"--nodes", "10"}, exitUsage, "torture takes 3 to 9 nodes"},
		{[]string{"--duration", "0s"}, exitUsage, "--duration must be from 1s to 24h"},
		{[]string{"--period", "5m"}, exitUsage, "--period must be from 100ms to --duration"},
		{[]string{"--recovery", "0s"}, exitUsage, "--recovery must be from 1s to 24h"},
		{[]string{"--clients", "0"}, exitUsage, "--clients 0: write 1 to 256"},
		{[]string{"--rate", "-1"}, exitUsage, "--rate must not be negative"},
		{[]string{"--client", "sarama"}, exitUsage, "--client sarama: known are franz, librdkafka and both"},
		{[]string{"--faults", "kill,earthquake"}, exitUsage, `unknown fault "earthquake": known are all, none, the classes process, network`},
		{[]string{"--faults", "ring"}, exitUsage, "ring needs 5 nodes, and there are 3"},
		{[]string{"--bootstrap", "127.0.0.1:1", "--faults", "none"}, exitUnreachable, "no node of the cluster answers"},
		{[]string{"--bootstrap", "127.0.0.1:1", "--nodes", "3"}, exitUsage, "--nodes and --bootstrap exclude each other"},
		{[]string{"--compose", "/no/such/file"}, exitConfig, "the compose cluster cannot be made: stat /no/such/file: no such file"},
		{[]string{"--compose", "x", "--nodes", "3"}, exitUsage, "--compose and --nodes exclude each other"},
		{[]string{"--compose", "x", "--keep"}, exitUsage, "--compose and --keep exclude each other"},
		{[]string{"check", "/no/such/file"}, exitNotFound, "no such file"},
		{[]string{"more"}, exitUsage, "no arguments"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, c.code, run(t.Context(), append([]string{"torture", "-q"}, c.args...), strings.NewReader(""), &out, &errs), errs.String())
			require.Contains(t, errs.String(), c.says)
			require.Empty(t, out.String())
		})
	}
}

// TestASavedHistoryIsCheckedAgain also when it was cut, or is of a newer version.
func TestASavedHistoryIsCheckedAgain(t *testing.T) {
	h := &recorded.History{Header: recorded.Header{Version: recorded.Version, Began: time.Now(), Seed: 7, Nodes: 3, Flags: []string{"--seed=7"},
		Topics: []recorded.Topic{{Name: "t", Replicas: 3, MinISR: 2, Rule: "isr", Durability: "memory", MinAcks: "0", Acks: "all"}}, Keys: []recorded.Key{{}}}}
	send := recorded.Op{Process: 1, Type: recorded.OK, F: recorded.Send, Start: 1, End: 2, Mops: []recorded.Mop{{Send: &recorded.Sent{Value: 1, Offset: 0}}}}
	poll := recorded.Op{Process: 2, Type: recorded.OK, F: recorded.Poll, Start: 3, End: 4, Final: true, Mops: []recorded.Mop{{Poll: []recorded.Seen{{Value: 1, Offset: 0}}}}}
	file := func(ops ...recorded.Op) string {
		t.Helper()
		h.Ops = ops
		var b bytes.Buffer
		require.NoError(t, recorded.Write(&b, h))
		name := filepath.Join(t.TempDir(), "h")
		require.NoError(t, os.WriteFile(name, b.Bytes(), 0o644))
		return name
	}
	check := func(name string, more ...string) (string, string, int) {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"torture", "check", name}, more...), strings.NewReader(""), &out, &errs)
		return out.String(), errs.String(), code
	}
	page := filepath.Join(t.TempDir(), "page.html")
	out, errs, code := check(file(send, poll), "--html", page, "-o", "json")
	require.Zero(t, code, errs)
	require.Contains(t, out, `"verdict": "ok"`)
	require.Contains(t, out, `"subscribed": 0`)
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(b), "<!doctype html>")

	subscribe := recorded.Op{Process: 2, Type: recorded.OK, F: recorded.Subscribe, Start: 1, End: 2, Keys: []int{0}}
	out, _, code = check(file(send, subscribe, poll))
	require.Zero(t, code)
	require.Contains(t, out, "clients subscribed as members of a group 1 time\n")
	out, _, code = check(file(send))
	require.Equal(t, exitLost, code)
	require.NotContains(t, out, "subscribed")
	require.Contains(t, out, "verdict: violated")
	require.Contains(t, out, "unseen, 1 times")
	twice := send
	twice.Start, twice.End, twice.Mops = 2, 3, []recorded.Mop{{Send: &recorded.Sent{Value: 2, Offset: 1}}}
	again := poll
	again.Mops = []recorded.Mop{{Poll: []recorded.Seen{{Value: 1, Offset: 0}, {Value: 2, Offset: 1}, {Value: 1, Offset: 2}}}}
	out, _, code = check(file(send, twice, again))
	require.Equal(t, exitOutOfOrder, code, out)

	whole, err := os.ReadFile(file(send, poll))
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut")
	require.NoError(t, os.WriteFile(cut, whole[:len(whole)*2/3], 0o644))
	_, errs, code = check(cut)
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, cut)
}

// TestWhatIsNoHistoryIsRefusedInOneSentence whatever it is.
func TestWhatIsNoHistoryIsRefusedInOneSentence(t *testing.T) {
	const head = `{"header":{"version":1,"topics":[],"keys":[]}}` + "\n"
	garbage := make([]byte, 4096)
	for i := range garbage {
		garbage[i] = byte(i*i*7 + i>>3)
	}
	for _, c := range []struct{ name, text, says string }{
		{"nothing", "", "line 1: the history is cut"},
		{"zeros", strings.Repeat("\x00", 4096), "line 1: the history is cut"},
		{"empty lines", "\n\n", "line 1: this is no history that cordwood torture has written"},
		{"bytes", string(garbage), "line 1: this is no history that cordwood torture has written"},
		{"another's JSON", "[1, 2]\n", "line 1: this is no history that cordwood torture has written"},
		{"only a header", head, "line 2: the history is cut"},
		{"half an operation", head + `{"op":{"p":1`, "line 2: the history is cut"},
		{"an operation of another's", head + `{"op":{"p":"one"}}` + "\n", "line 2: json: cannot unmarshal"},
		{"a line of nobody's", head + `{"frob":{}}` + "\n", "line 2: 0 kinds of line"},
		{"a newer version", strings.Replace(head, ":1", ":99", 1), "line 1: the history was written by a newer version: its format is 99, this one knows up to 1"},
		{"a newer version with other fields", `{"header":{"version":99,"topics":"two"}}` + "\n", "line 1: the history was written by a newer version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "h")
			require.NoError(t, os.WriteFile(name, []byte(c.text), 0o644))
			var out, errs bytes.Buffer
			require.Equal(t, exitConfig, run(t.Context(), []string{"torture", "check", name}, strings.NewReader(""), &out, &errs), errs.String())
			require.Contains(t, errs.String(), name+": history "+c.says)
			require.Equal(t, 1, strings.Count(errs.String(), "\n"), errs.String())
			require.Empty(t, out.String())
		})
	}
	var out, errs bytes.Buffer
	require.Equal(t, exitConfig, run(t.Context(), []string{"torture", "check", t.TempDir()}, strings.NewReader(""), &out, &errs), "a directory")
	require.Contains(t, errs.String(), "is a directory")
}

// TestTortureTellsHowToRepeatIt also with commands that hold quotes.
func TestTortureTellsHowToRepeatIt(t *testing.T) {
	o := tortureOptions{bootstrap: []string{"a:1", "b:2"}, duration: time.Minute, faults: []string{"kill"}, period: time.Second, recovery: time.Minute, seed: 7, processes: 3, rate: 10}
	o.commands.Kill, o.commands.Start = "kill 'node' {id}", "start {id}"
	require.Equal(t, `--bootstrap=a:1,b:2 --duration=1m0s --faults=kill --period=1s --recovery=1m0s --seed=7 --clients=3 --rate=10 `+
		`--kill-cmd='kill '\''node'\'' {id}' --start-cmd='start {id}'`, strings.Join(o.flags(), " "))
}
