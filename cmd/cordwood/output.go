package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"gopkg.in/yaml.v3"
)

// apiVersion stands in every JSON object: the shape is a contract.
const apiVersion = "v1"

// view is a command's result. Its JSON form is the contract; the rest is for people.
type view interface {
	// table writes rows for people; wide asks for more columns.
	table(w io.Writer, wide bool)
	// names lists what the result is about, for -o name.
	names() []string
}

// show fetches a result and prints it in the form that -o asks for, again and again with --watch. shape is a zero value
// of the result, for -o help. fetch may give a result together with an error, which becomes the exit code.
func (a *app) show(ctx context.Context, shape view, fetch func(context.Context) (view, error)) error {
	if a.output == "help" {
		return writeShape(a.out, shape)
	}
	for first := true; ; first = false {
		if a.watch > 0 && !first {
			select {
			case <-time.After(a.watch):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		v, err := fetch(ctx)
		if v != nil {
			if a.watch > 0 && terminal(a.out) && a.output != "json" {
				fmt.Fprint(a.out, "\x1b[H\x1b[2J")
			}
			if werr := a.print(v); werr != nil {
				return werr
			}
		}
		if a.watch == 0 {
			return err
		}
		if err != nil && v == nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			a.report(err, false)
		}
	}
}

// print writes one result.
func (a *app) print(v view) error {
	switch a.output {
	case "json":
		return writeJSON(a.out, v, a.watch > 0)
	case "yaml":
		return writeYAML(a.out, v)
	case "name":
		for _, n := range v.names() {
			if _, err := fmt.Fprintln(a.out, n); err != nil {
				return err
			}
		}
		return nil
	}
	tw := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	v.table(tw, a.output == "wide")
	return tw.Flush()
}

// writeJSON writes v as one line, or indented for one look.
func writeJSON(w io.Writer, v any, line bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if !line {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// writeYAML writes the JSON form as YAML, keys in the same order.
func writeYAML(w io.Writer, v any) error {
	var buf bytes.Buffer
	if err := writeJSON(&buf, v, true); err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(buf.Bytes(), &n); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	blockStyle(&n)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&n); err != nil {
		return err
	}
	return e.Close()
}

// blockStyle lets the encoder choose how to write each value; it quotes strings that would read as something else.
func blockStyle(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		n.Style = 0
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// writeShape writes the shape of a result: its keys with the types of their values.
func writeShape(w io.Writer, v any) error { return writeJSON(w, shapeOf(reflect.TypeOf(v)), false) }

// shapeOf describes a type as a value that encodes to its shape.
func shapeOf(t reflect.Type) any {
	switch t.Kind() {
	case reflect.Pointer:
		if s, ok := shapeOf(t.Elem()).(string); ok {
			return s + " or null"
		}
		return shapeOf(t.Elem())
	case reflect.Slice, reflect.Array:
		return []any{shapeOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"KEY": shapeOf(t.Elem())}
	case reflect.Struct:
		if _, ok := reflect.New(t).Interface().(json.Marshaler); ok {
			return "string"
		}
		fields := shapeFields{}
		addFields(&fields, t)
		return fields
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Interface:
		return "any"
	}
	return "number"
}

func addFields(fields *shapeFields, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			addFields(fields, f.Type)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		v := shapeOf(f.Type)
		if s, ok := v.(string); ok && strings.Contains(opts, "omitempty") {
			v = strings.TrimSuffix(s, " or null") + ", may be absent"
		}
		*fields = append(*fields, shapeField{name, v})
	}
}

// shapeFields encodes to an object that keeps its order.
type shapeFields []shapeField

type shapeField struct {
	name  string
	value any
}

// MarshalJSON writes the fields in order.
func (s shapeFields) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i, f := range s {
		if i > 0 {
			buf.WriteByte(',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		buf.Write(append(append(name, ':'), value...))
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// ids writes node ids as people read them: 1,2,3, or - for none.
func ids(list []int32) string {
	if len(list) == 0 {
		return "-"
	}
	var b strings.Builder
	for i, id := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, id)
	}
	return b.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
