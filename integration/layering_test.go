// Package integration proves promises on real clusters; this file proves the plan of the house.
package integration

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rule says what one package may import. Paths are relative to the module for our own packages.
type rule struct {
	pkg    string   // a package, or a prefix that ends in /
	own    []string // packages of the project that may be imported; a trailing / allows the tree
	never  []string // other packages that may not
	reason string
}

// rules is the import table of ARCHITECTURE.md. The first rule whose pkg matches holds.
var rules = []rule{
	{pkg: "logstore/vfs", reason: "the file system interface stands below everything"},
	{pkg: "logstore/record", reason: "what logs, replicas, handlers and connections share may know none of them"},
	{pkg: "fsm/mutant", reason: "names of checks, for everybody who has one"},
	{pkg: "logstore", own: []string{"logstore/record", "logstore/vfs", "fsm/mutant"}, reason: "a log does not know what a broker is"},
	{pkg: "fsm/metadata", own: []string{"logstore/record", "fsm/mutant"}, never: impure, reason: "decisions are pure: facts and now go in, effects come out"},
	{pkg: "fsm/partition", own: []string{"logstore/record", "fsm/metadata", "fsm/mutant"}, never: impure, reason: "decisions are pure: facts and now go in, effects come out"},
	{pkg: "fsm", own: []string{"fsm/metadata"}, reason: "the raft adapter joins raft and the metadata, nothing else"},
	{pkg: "transport/api", own: []string{"transport", "logstore/record", "fsm/metadata", "fsm/partition"}, reason: "handlers see logs and replicas through the interfaces of deps.go"},
	{pkg: "transport/api/apitest", own: []string{"transport", "transport/api", "logstore/record", "fsm/metadata", "fsm/partition"}, reason: "handlers are tested over fakes of what they see"},
	{pkg: "transport/admin", reason: "HTTP knows only interfaces of its own"},
	{pkg: "transport/rpc", own: []string{"logstore/record", "transport"}, reason: "the client between nodes only talks; the proof of the secret is one for both ends"},
	{pkg: "transport", own: []string{"logstore/record"}, reason: "connections do not know what they carry"},
	{pkg: "cluster/broker", own: []string{"cluster/", "transport/", "transport", "configs", "fsm/", "fsm", "logstore/", "logstore"}, reason: "the assembler adapts one layer to another, and is below cmd and integration"},
	{pkg: "cluster/", own: []string{"fsm/", "fsm", "logstore/", "logstore", "transport/rpc"}, reason: "running parts do not import each other; the broker joins them"},
	{pkg: "configs", reason: "configuration knows nobody"},
	{pkg: "cmd/", own: []string{"configs", "cluster/broker", "transport/rpc", "logstore", "logstore/", "integration/", "fsm/metadata", "fsm/mutant"}, reason: "commands start things, and show the pure judgements of fsm/metadata"},
	{pkg: "integration", own: []string{""}, reason: "tests see everything"},
	{pkg: "integration/", own: []string{""}, reason: "tests see everything"},
}

var impure = []string{"os", "net", "sync", "sync/atomic", "math/rand", "math/rand/v2", "crypto/rand", "log/slog", "log"}

// only names libraries that just one place may import.
var only = map[string][]string{
	"github.com/hashicorp/raft":           {"fsm", "cluster/controller"},
	"github.com/hashicorp/raft-boltdb/v2": {"cluster/controller"},
	"github.com/hashicorp/memberlist":     {"cluster/membership"},
	"github.com/spf13/viper":              {"configs"},
}

const module = "cordwood"

func matches(pattern, pkg string) bool {
	return pattern == "" || pattern == pkg || strings.HasSuffix(pattern, "/") && strings.HasPrefix(pkg, pattern)
}

func TestEveryPackageImportsOnlyWhatThePlanAllows(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		pkg := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.pkg, pkg) })
		if i < 0 {
			t.Errorf("%s: no rule for this package; add one to the table and to ARCHITECTURE.md", pkg)
			continue
		}
		r := rules[i]
		for _, imp := range p.Imports {
			if owners, ok := only[imp]; ok && !slices.Contains(owners, pkg) {
				t.Errorf("%s imports %s: only %s may", pkg, imp, strings.Join(owners, " and "))
			}
			if slices.Contains(r.never, imp) {
				t.Errorf("%s imports %s: %s", pkg, imp, r.reason)
			}
			rel, own := strings.CutPrefix(imp, module+"/")
			if own && !slices.ContainsFunc(r.own, func(o string) bool { return matches(o, rel) }) {
				t.Errorf("%s imports %s: %s", pkg, rel, r.reason)
			}
		}
	}
	if seen < 5 {
		t.Fatalf("go list named only %d packages", seen)
	}
}
