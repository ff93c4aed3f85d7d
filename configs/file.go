package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// fileValue is one key that the file sets, and where its value stands.
type fileValue struct {
	key       Key
	value     any // string, or []string of a list
	line, col int
}

type fileValues struct {
	values    []fileValue
	listeners []string // names in the file, in order
}

// fileReader walks the YAML tree beside the Config type and keeps everything that is wrong.
type fileReader struct {
	path   string
	out    fileValues
	faults Faults
}

// readFile reads the text of a file. It finds all faults, not just the first.
func readFile(path string, text []byte) (fileValues, Faults) {
	r := &fileReader{path: path}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return r.out, nil
	case err != nil:
		return r.out, Faults{syntaxFault(path, err)}
	}
	if err := dec.Decode(&more); err == nil {
		r.fault(&more, "a second document: a configuration is one document")
	} else if !errors.Is(err, io.EOF) {
		r.faults = append(r.faults, syntaxFault(path, err))
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return r.out, r.faults
	}
	r.section(root, reflect.TypeFor[Config](), "")
	return r.out, r.faults
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func syntaxFault(path string, err error) Fault {
	f := Fault{File: path, Text: err.Error()}
	if m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " ")); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		f.Col, f.Text = min(f.Line, 1), "not YAML: "+m[2]
	}
	return f
}

func (r *fileReader) fault(n *yaml.Node, format string, args ...any) {
	r.faults = append(r.faults, Fault{File: r.path, Line: n.Line, Col: n.Column, Text: fmt.Sprintf(format, args...)})
}

// entries calls visit for each key of a mapping, once per name.
func (r *fileReader) entries(n *yaml.Node, what string, visit func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s must hold keys", what)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		if line, twice := seen[key.Value]; twice {
			r.fault(key, "key %q is given twice, first in line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, value)
	}
}

// resolve follows an alias. YAML itself forbids an alias before its anchor, so there is no loop.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (r *fileReader) section(n *yaml.Node, t reflect.Type, prefix string) {
	fields := map[string]reflect.StructField{}
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		fields[f.Tag.Get("key")] = f
		names = append(names, f.Tag.Get("key"))
	}
	what := strings.TrimSuffix(prefix, ".")
	if what == "" {
		what = "a configuration"
	}
	r.entries(n, what, func(key, value *yaml.Node) {
		f, ok := fields[key.Value]
		if !ok {
			r.fault(key, "unknown key %q%s", key.Value, suggest(nearest(key.Value, names)))
			return
		}
		name := prefix + key.Value
		switch f.Type.Kind() {
		case reflect.Struct:
			r.section(value, f.Type, name+".")
		case reflect.Map:
			r.listenerMap(value, f.Type.Elem(), name)
		default:
			r.leaf(value, keyOf(f, name))
		}
	})
}

func (r *fileReader) listenerMap(n *yaml.Node, t reflect.Type, prefix string) {
	r.entries(n, prefix, func(key, value *yaml.Node) {
		if !listenerName.MatchString(key.Value) {
			r.fault(key, "%q is not a listener's name: write small letters, digits, - and _, a letter first", key.Value)
			return
		}
		r.out.listeners = append(r.out.listeners, key.Value)
		r.section(value, t, prefix+"."+key.Value+".")
	})
}

func (r *fileReader) leaf(n *yaml.Node, k Key) {
	v := fileValue{key: k, line: n.Line, col: n.Column}
	switch {
	case k.kind == listType && n.Kind == yaml.SequenceNode:
		list := []string{}
		for _, e := range n.Content {
			e = resolve(e)
			if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
				r.fault(e, "%s: an entry must be one value", k.Name)
				continue
			}
			list = append(list, e.Value)
		}
		v.value = list
	case k.kind == listType:
		r.fault(n, "%s must be a list: [%s]", k.Name, n.Value)
		return
	case n.Kind != yaml.ScalarNode:
		r.fault(n, "%s must be one value", k.Name)
		return
	case n.Tag == "!!null":
		r.fault(n, "%s has no value", k.Name)
		return
	default:
		if err := k.check(n.Value); err != nil {
			r.fault(n, "%s: %v", k.Name, err)
			return
		}
		v.value = n.Value
	}
	r.out.values = append(r.out.values, v)
}
