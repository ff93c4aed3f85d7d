package configs

import "testing"

// FuzzReadFile shows that no text of a file breaks the reader, that every fault has a place in it, and that what is
// taken decodes.
func FuzzReadFile(f *testing.F) {
	for _, s := range []string{"node: { id: 1 }\n", "a: &x [1]\nb: *x\n", "? [a]\n: b\n", "node:\n  <<: {id: 1}\n", "listeners: { a: {bind: x} }\n", "storage: { segment_ms: 7d }\n", "- a\n", "--- 1\n--- 2\n", "!!binary x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		values, faults := readFile("f", text)
		for _, x := range faults {
			if x.File != "f" || x.Text == "" {
				t.Fatalf("%+v", x)
			}
		}
		if len(faults) > 0 {
			return
		}
		names := values.listeners
		if len(names) == 0 {
			names = listenerNames(defaultListeners)
		}
		if _, err := decode(keysFor(names), values.values, nil); err != nil {
			t.Fatalf("taken but not decoded: %v", err)
		}
	})
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"7d", "1d12h", "500ms", "1GiB", "99999999999999999999", "-1", "d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d || d < 0 {
				t.Fatalf("%q: %s reads back as %s, %v", s, d, again, err)
			}
		}
		if b, err := ParseByteSize(s); err == nil {
			if again, err := ParseByteSize(b.String()); err != nil || again != b || b < 0 {
				t.Fatalf("%q: %s reads back as %s, %v", s, b, again, err)
			}
		}
	})
}
