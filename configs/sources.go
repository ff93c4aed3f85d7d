package configs

import (
	"fmt"
	"reflect"
	"strings"
)

// Source says who gave a value.
type Source string

// The sources, each over the ones before it.
const (
	FromDefault     Source = "default"
	FromFile        Source = "file"
	FromEnvironment Source = "environment"
	FromFlag        Source = "flag"
)

// Setting is a key with its value in force and where that came from.
type Setting struct {
	Key    Key
	Value  string // in the notation of the file; a list joined by commas
	Source Source
	Where  string // file:line:column, the variable or the flag; "" for a default
}

// Sources knows where each value came from.
type Sources struct {
	file     string
	order    []string
	settings map[string]*Setting
	places   map[string][2]int // line and column of what the file gave, also where something overrides it
}

func newSources(keys []Key) *Sources {
	s := &Sources{settings: map[string]*Setting{}, places: map[string][2]int{}}
	for _, k := range keys {
		s.order = append(s.order, k.Name)
		s.settings[k.Name] = &Setting{Key: k, Value: k.Default, Source: FromDefault}
	}
	return s
}

func (s *Sources) set(key string, from Source, where string, line, col int) {
	set, ok := s.settings[key]
	if !ok {
		return // an unknown key has been reported where it was read
	}
	set.Source, set.Where = from, where
	if line > 0 {
		s.places[key] = [2]int{line, col}
	}
}

// All lists every setting in the order of the Config struct.
func (s *Sources) All() []Setting {
	out := make([]Setting, len(s.order))
	for i, k := range s.order {
		out[i] = *s.settings[k]
	}
	return out
}

// Changed lists the settings whose value is not the default.
func (s *Sources) Changed() []Setting {
	var out []Setting
	for _, set := range s.All() {
		if set.Value != set.Key.Default {
			out = append(out, set)
		}
	}
	return out
}

// Of gives one setting; the zero Setting for a key that does not exist.
func (s *Sources) Of(key string) Setting {
	if set := s.settings[key]; set != nil {
		return *set
	}
	return Setting{}
}

// Given says that somebody set the key, be it to the default's value.
func (s *Sources) Given(key string) bool {
	return s.Of(key).Source != FromDefault && s.Of(key).Source != ""
}

// File is the file that was read, "" for none.
func (s *Sources) File() string { return s.file }

// fault places a fault of a rule where its key's value came from.
func (s *Sources) fault(key, text string) Fault {
	set := s.Of(key)
	f := Fault{Text: key + ": " + text}
	switch set.Source {
	case FromFile:
		f.File, f.Line, f.Col = s.file, s.places[key][0], s.places[key][1]
	case FromEnvironment, FromFlag:
		f.Origin = set.Where
	}
	return f
}

// fill writes the values in force into the settings.
func (s *Sources) fill(keys []Key, cfg *Config) {
	for _, k := range keys {
		s.settings[k.Name].Value = text(lookup(reflect.ValueOf(*cfg), strings.Split(k.Name, ".")))
	}
}

// lookup follows a dotted key into the struct.
func lookup(v reflect.Value, path []string) reflect.Value {
	if len(path) == 0 {
		return v
	}
	if v.Kind() == reflect.Map {
		return lookup(v.MapIndex(reflect.ValueOf(path[0])), path[1:])
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") == path[0] {
			return lookup(v.Field(i), path[1:])
		}
	}
	panic("configs: no field for " + path[0])
}

func text(v reflect.Value) string {
	if list, ok := v.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v.Interface())
}
