package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func FuzzPrivateTag(f *testing.F) {
	f.Add([]byte("\x01{\"state\":\"alive\"}"))
	f.Add([]byte("\x02{}"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		var tags kmsg.Tags
		tags.Set(nodeTag, body)
		var n nodeInfo
		ok, err := privateTag(&tags, nodeTag, &n)
		if !ok {
			t.Fatal("a tag that is there was not found")
		}
		if err == nil && body[0] != tagVersion {
			t.Fatalf("version %d was taken", body[0])
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add(`%p:%o %T %k %v\n`)
	f.Add(`\x4`)
	f.Add(`%`)
	f.Fuzz(func(t *testing.T, s string) {
		parts, err := parseFormat(s)
		if err == nil && len(parts) > len(s) {
			t.Fatalf("%d parts of %d bytes", len(parts), len(s))
		}
	})
}
