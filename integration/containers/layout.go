package containers

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// object is a mapping of a compose file.
type object = map[string]any

// layout is a compose file as its compose command understands it: variables filled in, paths whole.
type layout struct {
	top   object
	nodes []node // by id
}

// node is a service that runs a node.
type node struct {
	service  string
	id       int
	program  []string // the binary, and what stands before serve
	args     []string // serve and what follows
	user     string   // that it runs as: "uid:gid", "uid" or empty
	target   string   // where in the container its volume is
	listener string   // for clients outside
	port     string   // that it binds in the container
	host     int      // port of this machine that leads to it
}

// image is what an image says of its containers.
type image struct {
	Entrypoint []string
	Cmd        []string
	User       string
}

// Places in a node's volume: beside its data directory lie the journal and the rules of development mode.
const (
	dataName = "data"
	bootName = "boot_id"
)

// readLayout reads the text that `compose config` prints.
func readLayout(text []byte) (*layout, error) {
	l := &layout{}
	if err := yaml.Unmarshal(text, &l.top); err != nil {
		return nil, fmt.Errorf("what compose made of the file: %w", err)
	}
	if l.top == nil {
		l.top = object{}
	}
	if _, ok := l.top["services"].(object); !ok {
		return nil, fmt.Errorf("the file has no services")
	}
	return l, nil
}

// services are those of the file, by name.
func (l *layout) services() object {
	services, _ := l.top["services"].(object)
	return services
}

// images lists the images that the services run.
func (l *layout) images() (names []string) {
	for _, s := range l.services() {
		if name := text(field(s, "image")); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// findNodes finds the services that run `cordwood serve`, and what they are told.
func (l *layout) findNodes(images map[string]image) error {
	var missing error // of what may be a node
	for _, name := range slices.Sorted(maps.Keys(l.services())) {
		s := l.services()[name]
		of, there := images[text(field(s, "image"))]
		entry, command := words(field(s, "entrypoint")), words(field(s, "command"))
		if !there {
			why := fmt.Errorf("image %q of service %s is not on this machine: build it first", text(field(s, "image")), name)
			if slices.Contains(command, "serve") || slices.Contains(entry, "serve") {
				return why
			}
			if len(entry) == 0 && missing == nil {
				missing = why
			}
		}
		if len(entry) == 0 {
			entry = of.Entrypoint
			if len(command) == 0 {
				command = of.Cmd
			}
		}
		line := append(slices.Clone(entry), command...)
		at := slices.Index(line, "serve")
		if at < 1 || path.Base(line[0]) != "cordwood" {
			continue
		}
		n := node{service: name, program: line[:at], args: line[at:], user: text(field(s, "user"))}
		if n.user == "" {
			n.user = of.User
		}
		if mode := text(field(s, "network_mode")); mode != "" && mode != "bridge" {
			return fmt.Errorf("service %s has network_mode %s: it can be cut off only with a network of its own", name, mode)
		}
		if err := n.configure(s); err != nil {
			return fmt.Errorf("service %s: %w", name, err)
		}
		l.nodes = append(l.nodes, n)
	}
	if missing != nil && len(l.nodes) == 0 {
		return missing
	}
	if len(l.nodes) == 0 {
		return fmt.Errorf("no service of the file runs `cordwood serve`")
	}
	slices.SortFunc(l.nodes, func(a, b node) int { return a.id - b.id })
	for i, n := range l.nodes[1:] {
		if l.nodes[i].id == n.id {
			return fmt.Errorf("services %s and %s both run node %d", l.nodes[i].service, n.service, n.id)
		}
	}
	return nil
}

// field gives a field of a mapping, nil: it is none, or there is none.
func field(of any, name string) any {
	m, _ := of.(object)
	return m[name]
}

// text is a scalar as text; empty: it is none.
func text(v any) string {
	switch v := v.(type) {
	case nil, object, []any:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// words are a command: a list, or a line without quotes.
func words(v any) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, w := range v {
			out = append(out, text(w))
		}
	case string:
		out = strings.Fields(v)
	}
	return out
}

// pairs are an environment or labels: a mapping, or a list of key=value.
func pairs(v any) map[string]string {
	out := map[string]string{}
	switch v := v.(type) {
	case object:
		for key, value := range v {
			out[key] = text(value)
		}
	case []any:
		for _, w := range v {
			key, value, _ := strings.Cut(text(w), "=")
			out[key] = value
		}
	}
	return out
}

// mount is a volume, or a directory or file of the host, in a container.
type mount struct{ source, target string }

// mounts reads the volumes of a service, in either way to write them.
func mounts(v any) (out []mount) {
	list, _ := v.([]any)
	for _, m := range list {
		switch m := m.(type) {
		case string:
			parts := strings.SplitN(m, ":", 3)
			if len(parts) == 1 {
				parts = []string{"", parts[0]}
			}
			out = append(out, mount{parts[0], path.Clean(parts[1])})
		case object:
			out = append(out, mount{text(m["source"]), path.Clean(text(m["target"]))})
		}
	}
	return out
}

// targets reads the ports of containers that a service publishes.
func targets(v any) (out []string) {
	list, _ := v.([]any)
	for _, p := range list {
		switch p := p.(type) {
		case object:
			out = append(out, text(p["target"]))
		default:
			s, _, _ := strings.Cut(text(p), "/")
			out = append(out, s[strings.LastIndex(s, ":")+1:])
		}
	}
	return out
}

// under says whether a path is a directory or lies in it.
func under(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// numeric gives the numbers of a user; false: it is a name, which only its image could tell the number of.
func numeric(user string) (uid, gid string, ok bool) {
	if user == "" {
		return "0", "0", true
	}
	uid, gid, ok = strings.Cut(user, ":")
	if !ok {
		gid = "0"
	}
	for _, n := range []string{uid, gid} {
		if _, err := strconv.ParseUint(n, 10, 31); err != nil {
			return "", "", false
		}
	}
	return uid, gid, true
}
