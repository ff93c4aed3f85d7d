package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// listenerName is the form of a listener's name: it becomes part of environment variables, and viper folds case.
var listenerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Path is the file that serve and health --local read: the one that the flag names; else DefaultPath where that
// exists; else none ("").
func Path(flag string) string {
	if flag != "" {
		return flag
	}
	if _, err := os.Stat(DefaultPath); err == nil {
		return DefaultPath
	}
	return ""
}

// Load reads the file at path ("" for none), environ (os.Environ(): viper reads the values from the process itself, so
// another environment is refused) and flags (by key, such as "node.id"), flags over environment over file over
// defaults. It returns a complete, checked configuration and where each value came from; or Faults with everything that
// is wrong. A file that cannot be read is one fault too.
func Load(path string, flags map[string]string, environ []string) (*Config, *Sources, error) {
	file := fileValues{}
	var faults Faults
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, Faults{{File: path, Text: readFault(err)}}
		}
		file, faults = readFile(path, text)
	}
	listeners := file.listeners
	if len(listeners) == 0 {
		listeners = listenerNames(defaultListeners)
	}
	keys := keysFor(listeners)
	src := newSources(keys)
	for _, v := range file.values {
		src.set(v.key.Name, FromFile, fmt.Sprintf("%s:%d:%d", path, v.line, v.col), v.line, v.col)
	}
	envFaults, err := bindEnviron(keys, environ, src)
	if err != nil {
		return nil, nil, err
	}
	faults = append(faults, envFaults...)
	faults = append(faults, bindFlags(keys, flags, src)...)
	if len(faults) > 0 {
		return nil, nil, faults.sorted()
	}
	cfg, err := decode(keys, file.values, flags)
	if err != nil {
		return nil, nil, err
	}
	src.file = path
	src.fill(keys, cfg)
	if faults := validate(cfg, src); len(faults) > 0 {
		return nil, nil, faults.sorted()
	}
	return cfg, src, nil
}

// Defaults is the configuration when nobody says anything.
func Defaults() (*Config, *Sources) {
	keys := Keys()
	cfg, err := decode(keys, nil, nil)
	if err != nil {
		panic(err) // a tag of the struct is wrong: the first test finds it
	}
	src := newSources(keys)
	src.fill(keys, cfg)
	return cfg, src
}

func readFault(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("may not be read by uid %d", os.Getuid())
	}
	return err.Error()
}

// bindEnviron notes which keys the environment sets, and finds variables that are not ours or whose value is wrong.
func bindEnviron(keys []Key, environ []string, src *Sources) (Faults, error) {
	var faults Faults
	byEnv := map[string]Key{}
	var names []string
	for _, k := range keys {
		byEnv[k.Env()] = k
		names = append(names, k.Env())
	}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(otherVariables, name) {
			continue
		}
		k, ok := byEnv[name]
		if !ok {
			faults = append(faults, Fault{Origin: "environment", Text: "unknown variable " + name + suggest(nearest(name, names))})
			continue
		}
		if now, set := os.LookupEnv(name); !set || now != value {
			return nil, fmt.Errorf("configs: %s differs from the process's own environment", name)
		}
		if err := k.check(value); err != nil {
			faults = append(faults, Fault{Origin: name, Text: err.Error()})
			continue
		}
		src.set(k.Name, FromEnvironment, name, 0, 0)
	}
	return faults, nil
}

func bindFlags(keys []Key, flags map[string]string, src *Sources) Faults {
	var faults Faults
	byName := map[string]Key{}
	var names []string
	for _, k := range keys {
		byName[k.Name] = k
		names = append(names, k.Name)
	}
	for _, name := range slices.Sorted(mapKeys(flags)) {
		k, ok := byName[name]
		if !ok {
			faults = append(faults, Fault{Origin: "flags", Text: fmt.Sprintf("unknown key %q%s", name, suggest(nearest(name, names)))})
			continue
		}
		if err := k.check(flags[name]); err != nil {
			faults = append(faults, Fault{Origin: "flag " + name, Text: err.Error()})
			continue
		}
		src.set(name, FromFlag, "flag "+name, 0, 0)
	}
	return faults
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func suggest(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", name)
}

// decode lets viper join defaults, file, environment and flags. All values have been checked as text before, so an
// error here is a fault of the registry.
func decode(keys []Key, file []fileValue, flags map[string]string) (*Config, error) {
	v := viper.NewWithOptions(viper.KeyDelimiter("."))
	v.AllowEmptyEnv(true)
	v.SetConfigType("yaml")
	values := map[string]any{}
	for _, f := range file {
		nest(values, f.key.Name, f.value)
	}
	if err := v.MergeConfigMap(values); err != nil {
		return nil, fmt.Errorf("configs: %w", err)
	}
	byName := map[string]Key{}
	for _, k := range keys {
		byName[k.Name] = k
		v.SetDefault(k.Name, k.Default)
		if err := v.BindEnv(k.Name, k.Env()); err != nil {
			return nil, fmt.Errorf("configs: bind %s: %w", k.Name, err)
		}
	}
	for name, value := range flags {
		v.Set(name, value)
	}
	cfg := &Config{}
	err := v.Unmarshal(cfg, func(d *mapstructure.DecoderConfig) {
		d.TagName, d.ErrorUnused, d.DecodeHook = "key", true, mapstructure.DecodeHookFuncType(decodeText)
	})
	if err != nil {
		return nil, fmt.Errorf("configs: %w", err)
	}
	return cfg, nil
}

// decodeText turns every leaf's text into its type; what is no text has passed through before.
func decodeText(from, to reflect.Type, data any) (any, error) {
	s, ok := data.(string)
	if !ok || to.Kind() == reflect.Interface {
		return data, nil
	}
	return Key{Also: "-1", kind: to}.parse(s)
}

// nest puts value under its dotted key into nested maps.
func nest(m map[string]any, key string, value any) {
	head, rest, more := strings.Cut(key, ".")
	if !more {
		m[head] = value
		return
	}
	inner, ok := m[head].(map[string]any)
	if !ok {
		inner = map[string]any{}
		m[head] = inner
	}
	nest(inner, rest, value)
}
