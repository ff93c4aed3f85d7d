package containers

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// generated says how a layout becomes the file of a run.
type generated struct {
	project  string
	owner    string
	room     int64             // bytes that a node's volume has
	settings map[string]string // of every node, over its own
}

// Names in the generated file. A service of the user's becomes two: the helper, which has its name, its networks and its
// ports, and the node.
const (
	nodeSuffix   = "-node"
	volumePrefix = "torture-"
)

// moved are keys of a service that say how it is reached. They are the helper's alone: the node has its network.
var moved = []string{"ports", "networks", "network_mode", "hostname", "domainname", "dns", "dns_search", "dns_opt", "extra_hosts", "links", "external_links",
	"expose", "mac_address"}

// left are keys of a service that the file of a run has no use for: nothing is built, starts again by itself or waits for
// services that are no nodes.
var left = []string{"build", "container_name", "depends_on", "healthcheck", "restart", "deploy", "profiles", "init", "pid"}

// ours are keys that the helper has values of its own for.
var ours = []string{"command", "entrypoint", "environment", "env_file", "volumes", "user", "cap_drop", "cap_add", "stop_signal", "stop_grace_period", "tmpfs",
	"configs", "secrets", "logging", "working_dir"}

// generate writes the compose file of a run.
func (l *layout) generate(g generated) ([]byte, error) {
	out := object{}
	for key, v := range l.top {
		if key != "name" {
			out[key] = v
		}
	}
	services, volumes := object{}, object{}
	used := map[string]bool{}
	for _, n := range l.nodes {
		s, _ := l.services()[n.service].(object)
		services[n.service] = n.helper(s, g)
		services[n.service+nodeSuffix] = n.container(s, g)
		for _, m := range mounts(s["volumes"]) {
			used[m.source] = true
		}
		volumes[volumePrefix+n.service] = n.volume(g)
	}
	named, _ := l.top["volumes"].(object)
	for name, v := range named {
		if used[name] {
			volumes[name] = g.own(v)
		}
	}
	networks := object{"default": g.own(nil)}
	its, _ := l.top["networks"].(object)
	for name, v := range its {
		networks[name] = g.own(v)
	}
	if !l.onDefault() {
		delete(networks, "default")
	}
	out["services"], out["volumes"], out["networks"] = services, volumes, networks
	return yaml.Marshal(out)
}

// onDefault says whether a node is on the project's default network.
func (l *layout) onDefault() bool {
	return slices.ContainsFunc(l.nodes, func(n node) bool {
		switch nets := field(l.services()[n.service], "networks").(type) {
		case object:
			_, ok := nets["default"]
			return ok || len(nets) == 0
		case []any:
			return slices.Contains(words(nets), "default") || len(nets) == 0
		}
		return true
	})
}

// own labels a network or volume and lets its name depend on the project, unless somebody else made it.
func (g generated) own(v any) object {
	out := object{}
	was, _ := v.(object)
	for key, x := range was {
		out[key] = x
	}
	if external, given := out["external"]; given && external != false {
		return out
	}
	delete(out, "name")
	out["labels"] = g.labels(out["labels"], "")
	return out
}

func (g generated) labels(v any, service string) object {
	out := object{projectLabel: g.project, ownerLabel: g.owner}
	for key, value := range pairs(v) {
		out[key] = value
	}
	if service != "" {
		out[serviceLabel] = service
	}
	return out
}

// without copies a service but for keys.
func without(s object, keys ...[]string) object {
	out := object{}
	for key, v := range s {
		if !slices.ContainsFunc(keys, func(k []string) bool { return slices.Contains(k, key) }) {
			out[key] = v
		}
	}
	return out
}

// helper is the service that holds a node's network and volume.
func (n *node) helper(s object, g generated) object {
	out := without(s, left, ours)
	out["labels"] = g.labels(s["labels"], n.service)
	out["entrypoint"] = n.program
	out["command"] = []string{"torture", "hold", path.Join(n.target, bootName)}
	out["user"] = "0:0"
	out["cap_add"] = []string{"NET_ADMIN"}
	out["restart"] = "no"
	out["healthcheck"] = object{"disable": true}
	out["ports"] = []string{fmt.Sprintf("127.0.0.1:%d:%s", n.host, n.port)}
	out["volumes"] = []string{volumePrefix + n.service + ":" + n.target}
	return out
}

// container is the service that runs a node.
func (n *node) container(s object, g generated) object {
	out := without(s, left, moved)
	out["labels"] = g.labels(s["labels"], n.service+nodeSuffix)
	out["network_mode"] = "service:" + n.service
	out["restart"] = "no"
	out["healthcheck"] = object{"disable": true}
	out["logging"] = object{"driver": "json-file"}
	out["entrypoint"] = n.program
	out["command"] = n.line(g)
	list := []any{volumePrefix + n.service + ":" + n.target}
	its, _ := s["volumes"].([]any)
	for i, m := range mounts(its) {
		if m.target != n.target {
			list = append(list, its[i])
		}
	}
	out["volumes"] = list
	return out
}

// line is the command line of serve with the settings of the run, which stand over all others.
func (n *node) line(g generated) []string {
	set := map[string]string{
		"node.data_dir": path.Join(n.target, dataName), "node.boot_id_file": path.Join(n.target, bootName),
		"listeners." + n.listener + ".advertise": fmt.Sprintf("127.0.0.1:%d", n.host),
	}
	for key, value := range g.settings {
		set[key] = value
	}
	var out []string
	for i := 0; i < len(n.args); i++ {
		flag, pair, joined := strings.Cut(n.args[i], "=")
		if flag != "--set" {
			out = append(out, n.args[i])
			continue
		}
		if !joined {
			i++
			if i == len(n.args) {
				break
			}
			pair = n.args[i]
		}
		if key, _, _ := strings.Cut(pair, "="); set[key] == "" {
			out = append(out, "--set", pair)
		}
	}
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		out = append(out, "--set", key+"="+set[key])
	}
	return out
}

// volume is a small file system in memory, so that it fills up.
func (n *node) volume(g generated) object {
	options := fmt.Sprintf("size=%d,mode=0777", g.room)
	if uid, gid, ok := numeric(n.user); ok {
		options = fmt.Sprintf("size=%d,mode=0755,uid=%s,gid=%s", g.room, uid, gid)
	}
	return object{"driver": "local", "driver_opts": object{"type": "tmpfs", "device": "tmpfs", "o": options}, "labels": g.labels(nil, "")}
}
