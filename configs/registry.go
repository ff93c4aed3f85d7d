package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// EnvPrefix starts the names of all our environment variables.
const EnvPrefix = "CORDWOOD_"

// otherVariables start with EnvPrefix but are the command line's own, not keys.
var otherVariables = []string{"CORDWOOD_PROFILE", "CORDWOOD_BROKERS"}

// Key is one configuration key: a leaf of the Config struct.
type Key struct {
	Name    string // dotted, as in storage.segment_bytes
	Default string // in the notation of the file
	Also    string // a value outside the type's usual range that is meant: "-1"
	Unit    string
	Doc     string
	kind    reflect.Type
}

// Env is the environment variable of the key.
func (k Key) Env() string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(k.Name))
}

// Section is a group of keys, with what it is for.
type Section struct{ Name, Doc string }

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[ByteSize]()
	listType     = reflect.TypeFor[[]string]()
)

// Keys lists all keys in the order of the struct, with the default listeners.
func Keys() []Key { return keysFor(listenerNames(defaultListeners)) }

// Sections lists the top-level groups in the order of the struct.
func Sections() []Section {
	var out []Section
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Map {
			out = append(out, Section{f.Tag.Get("key"), f.Tag.Get("doc")})
		}
	}
	return out
}

// listenerNames gives the names in the order people expect: internal, external, then by name.
func listenerNames[V any](m map[string]V) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	rank := func(n string) string { return map[string]string{"internal": "0", "external": "1"}[n] + "2" + n }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	return names
}

// keysFor lists all keys with the given listeners.
func keysFor(listeners []string) []Key {
	var out []Key
	walkKeys(reflect.TypeFor[Config](), "", func(f reflect.StructField, name string) {
		if f.Type.Kind() == reflect.Map {
			for _, l := range listeners {
				walkKeys(f.Type.Elem(), name+"."+l+".", func(lf reflect.StructField, lname string) {
					k := keyOf(lf, lname)
					k.Default = defaultListener(l, lf.Name)
					out = append(out, k)
				})
			}
			return
		}
		out = append(out, keyOf(f, name))
	})
	return out
}

func defaultListener(name, field string) string {
	return reflect.ValueOf(defaultListeners[name]).FieldByName(field).String()
}

func keyOf(f reflect.StructField, name string) Key {
	return Key{Name: name, Default: f.Tag.Get("default"), Also: f.Tag.Get("also"), Unit: f.Tag.Get("unit"), Doc: f.Tag.Get("doc"), kind: f.Type}
}

func walkKeys(t reflect.Type, prefix string, visit func(reflect.StructField, string)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := prefix + f.Tag.Get("key")
		if f.Type.Kind() == reflect.Struct {
			walkKeys(f.Type, name+".", visit)
			continue
		}
		visit(f, name)
	}
}

// check says what is wrong with one value as text. It accepts exactly what decode accepts.
func (k Key) check(s string) error {
	_, err := k.parse(s)
	return err
}

// parse turns text into a value of the key's type.
func (k Key) parse(s string) (any, error) {
	if k.Also != "" && s == k.Also {
		n, err := strconv.ParseInt(s, 10, 64)
		return reflect.ValueOf(n).Convert(k.kind).Interface(), err
	}
	switch {
	case k.kind == durationType:
		return ParseDuration(s)
	case k.kind == sizeType:
		return ParseByteSize(s)
	case k.kind == listType:
		return splitList(s), nil
	case k.kind.Kind() == reflect.String:
		return s, nil
	case k.kind.Kind() == reflect.Bool:
		if s != "true" && s != "false" {
			return nil, fmt.Errorf("%q is neither true nor false", s)
		}
		return s == "true", nil
	}
	v := reflect.New(k.kind).Elem()
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil && strings.Contains(err.Error(), "range"), err == nil && v.CanInt() && v.OverflowInt(n), err == nil && v.CanUint() && n < 0:
		return nil, fmt.Errorf("%q is out of range", s)
	case err != nil:
		return nil, fmt.Errorf("%q is not a whole number", s)
	case v.CanUint():
		v.SetUint(uint64(n))
	default:
		v.SetInt(n)
	}
	return v.Interface(), nil
}

// splitList reads a list from one text, as the environment and flags give it.
func splitList(s string) []string {
	out := []string{}
	for e := range strings.SplitSeq(s, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// nearest is the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of single-letter edits between a and b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
