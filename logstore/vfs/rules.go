package vfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Op names a call of FS or File, for the rules of Fault.
type Op string

// The calls that rules can name. OpAny is all of them, OpChange those that change the disk or make it durable.
const (
	OpAny       Op = ""
	OpChange    Op = "change"
	OpCreate    Op = "create"
	OpOpen      Op = "open"
	OpOpenRW    Op = "openrw"
	OpRename    Op = "rename"
	OpRemove    Op = "remove"
	OpRemoveAll Op = "removeall"
	OpMkdir     Op = "mkdir"
	OpReadDir   Op = "readdir"
	OpStat      Op = "stat"
	OpSyncDir   Op = "syncdir"
	OpChtimes   Op = "chtimes"
	OpLock      Op = "lock"
	OpUsage     Op = "usage"
	OpRead      Op = "read"
	OpWrite     Op = "write"
	OpTruncate  Op = "truncate"
	OpSync      Op = "sync"
	OpSize      Op = "size"
)

var knownOps = map[Op]bool{ // true: changes the disk
	OpCreate: true, OpOpen: false, OpOpenRW: true, OpRename: true, OpRemove: true, OpRemoveAll: true, OpMkdir: true,
	OpReadDir: false, OpStat: false, OpSyncDir: true, OpChtimes: true, OpLock: false, OpUsage: false,
	OpRead: false, OpWrite: true, OpTruncate: true, OpSync: true, OpSize: false,
}

// Rule makes calls fail or wait. A rules file is a JSON array of them. The first rule that applies decides the error;
// the delays of all add up.
type Rule struct {
	Op    Op       `json:"op,omitempty"`    // which calls; OpAny when empty
	Path  string   `json:"path,omitempty"`  // glob (path.Match) for the name's last elements, as many as it has itself; any when empty
	Skip  int      `json:"skip,omitempty"`  // matching calls that pass before the first is touched
	Times int      `json:"times,omitempty"` // how many are touched; 0 = all that follow
	Error string   `json:"error,omitempty"` // EIO, ENOSPC, EDQUOT, EROFS, EACCES, EMFILE; none when empty
	Short int      `json:"short,omitempty"` // bytes that a failing write leaves behind
	Delay Duration `json:"delay,omitempty"` // wait before the call
}

// Duration is a time.Duration that stands in JSON as text: "200ms".
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// MarshalText writes the form that UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

var ruleErrors = map[string]error{
	"": nil, "EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "EROFS": syscall.EROFS,
	"EACCES": syscall.EACCES, "EMFILE": syscall.EMFILE,
}

func (r *Rule) check() error {
	_, known := knownOps[r.Op]
	_, errKnown := ruleErrors[r.Error]
	_, globErr := path.Match(r.Path, "")
	switch {
	case !known && r.Op != OpAny && r.Op != OpChange:
		return fmt.Errorf("op %q is unknown", r.Op)
	case !errKnown:
		return fmt.Errorf("error %q is unknown", r.Error)
	case globErr != nil:
		return fmt.Errorf("path %q: %w", r.Path, globErr)
	case r.Skip < 0 || r.Times < 0 || r.Short < 0 || r.Delay < 0:
		return errors.New("negative number")
	}
	return nil
}

func (r *Rule) matches(op Op, name string) bool {
	if r.Op != OpAny && r.Op != op && (r.Op != OpChange || !knownOps[op]) {
		return false
	}
	if r.Path == "" {
		return true
	}
	parts := strings.Split(name, "/")
	depth := min(len(parts), strings.Count(r.Path, "/")+1)
	ok, err := path.Match(r.Path, strings.Join(parts[len(parts)-depth:], "/"))
	return ok && err == nil
}

// ParseRules reads a rules file. Empty text is no rule.
func ParseRules(b []byte) ([]Rule, error) {
	if len(strings.TrimSpace(string(b))) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	var rules []Rule
	if err := d.Decode(&rules); err != nil {
		return nil, fmt.Errorf("fault rules: %w", err)
	}
	for i := range rules {
		if err := rules[i].check(); err != nil {
			return nil, fmt.Errorf("fault rule %d: %w", i, err)
		}
	}
	return rules, nil
}

// ruleSet is the rules in force and how often each has matched.
type ruleSet struct {
	mu    sync.Mutex
	rules []Rule
	seen  []int
	calls map[Op]int64
}

func (s *ruleSet) set(rules []Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.seen = rules, make([]int, len(rules))
}

// verdict is what becomes of one call.
type verdict struct {
	err   error
	short int
	delay time.Duration
}

func (s *ruleSet) judge(op Op, name string) (v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op]++
	for i := range s.rules {
		r := &s.rules[i]
		if !r.matches(op, name) {
			continue
		}
		s.seen[i]++
		if n := s.seen[i] - r.Skip; n < 1 || r.Times > 0 && n > r.Times {
			continue
		}
		v.delay += time.Duration(r.Delay)
		if v.err == nil && ruleErrors[r.Error] != nil {
			v.err, v.short = ruleErrors[r.Error], r.Short
		}
	}
	return v
}
