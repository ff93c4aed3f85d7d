package containers

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"cordwood/configs"
)

// configure learns what a service's node is told: from its file, its environment and its flags, as the node does.
func (n *node) configure(service any) error {
	file, sets := flagsOf(n.args)
	if file == "" {
		file = configs.DefaultPath
	}
	all := mounts(field(service, "volumes"))
	host := ""
	for _, m := range all {
		if strings.HasPrefix(m.source, "/") && under(file, m.target) {
			host = filepath.Join(m.source, strings.TrimPrefix(file, m.target))
		}
	}
	if host == "" && file != configs.DefaultPath {
		return fmt.Errorf("its configuration %s is no file of this machine", file)
	}
	environment := pairs(field(service, "environment"))
	told := map[string]string{}
	for _, k := range configs.Keys() {
		if v, ok := environment[k.Env()]; ok {
			told[k.Name] = v
		}
	}
	maps.Copy(told, sets)
	cfg, _, err := configs.Load(host, told, nil)
	if err != nil {
		return err
	}
	n.id = int(cfg.Node.ID)
	if err := n.outside(cfg, targets(field(service, "ports"))); err != nil {
		return err
	}
	n.target = cfg.Node.DataDir
	for _, m := range all { // the volume may hold more than the data directory
		if under(cfg.Node.DataDir, m.target) && m.target != "/" {
			n.target = m.target
		}
	}
	return nil
}

// flagsOf reads the flags of serve.
func flagsOf(args []string) (file string, sets map[string]string) {
	sets = map[string]string{}
	for i := range args {
		name, value, given := strings.Cut(args[i], "=")
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--config":
			file = value
		case "--set":
			key, v, _ := strings.Cut(value, "=")
			sets[key] = v
		}
	}
	return file, sets
}

// errNoListener is a node that nobody outside its network can talk to.
var errNoListener = errors.New("it has no listener for clients outside the containers' network: one beside inter_broker_listener")

// outside finds the listener for clients of this machine: one whose port is published, if there is one.
func (n *node) outside(cfg *configs.Config, published []string) error {
	for _, name := range slices.Sorted(maps.Keys(cfg.Listeners)) {
		if name == cfg.InterBrokerListener {
			continue
		}
		_, port, err := net.SplitHostPort(cfg.Listeners[name].Bind)
		if err != nil {
			return err
		}
		if n.listener == "" || slices.Contains(published, port) && !slices.Contains(published, n.port) {
			n.listener, n.port = name, port
		}
	}
	if n.listener == "" {
		return errNoListener
	}
	return nil
}
