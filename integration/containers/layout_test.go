package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// settings of a node, for a file.
func nodeFile(t *testing.T, id string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(name, []byte(`node: { id: `+id+`, data_dir: /var/lib/cordwood }
cluster: { join: [n1:7946, n2:7946] }
listeners:
  internal: { bind: "0.0.0.0:9092", advertise: "n`+id+`:9092" }
  external: { bind: "0.0.0.0:19092", advertise: "localhost:19092" }
raft: { bind: "0.0.0.0:9093", advertise: "n`+id+`:9093" }
gossip: { bind: "0.0.0.0:7946", advertise: "n`+id+`:7946" }
`), 0o644))
	return name
}

// twoNodes is what compose prints of a file with nodes written in two ways, and another service.
func twoNodes(t *testing.T) string {
	return `
version: "3.7"
services:
  n1:
    image: cordwood:latest
    container_name: mine
    hostname: n1
    restart: always
    build: { context: . }
    command: [serve, --config, /etc/cordwood/cordwood.yaml, --set, log.level=debug, --set, dev_mode=false]
    healthcheck: { test: [CMD, "true"] }
    ports: ["127.0.0.1:19092:19092/tcp", "127.0.0.1:8081:8080/tcp"]
    volumes: ["` + nodeFile(t, "1") + `:/etc/cordwood/cordwood.yaml:ro", "n1:/var/lib/cordwood:rw", "other:/other"]
  n2:
    image: cordwood:latest
    entrypoint: /opt/bin/cordwood
    command: serve --config=/etc/c/node.yaml
    user: "1000"
    environment: ["CORDWOOD_NODE_ID=2", "HOME=/"]
    networks: { front: { aliases: [second] } }
    ports: [{ target: 19092, published: 29092 }]
    volumes:
      - { type: bind, source: ` + filepath.Dir(nodeFile(t, "7")) + `, target: /etc/c }
      - { type: volume, source: n2, target: /var/lib }
  writer:
    image: other
    command: [cordwood, produce]
networks: { front: { name: front } }
volumes: { n1: { name: x_n1 }, n2: {}, other: { name: x_other }, theirs: { external: true } }
`
}

var cordwoodImage = map[string]image{"cordwood:latest": {Entrypoint: []string{"/cordwood"}, Cmd: []string{"serve"}, User: "65532:65532"}}

func TestNodesOfAComposeFileAreFound(t *testing.T) {
	l, err := readLayout([]byte(twoNodes(t)))
	require.NoError(t, err)
	require.Equal(t, []string{"cordwood:latest", "other"}, l.images())
	require.NoError(t, l.findNodes(cordwoodImage))
	require.Len(t, l.nodes, 2)
	one, two := l.nodes[0], l.nodes[1]
	require.Equal(t, node{service: "n1", id: 1, program: []string{"/cordwood"}, user: "65532:65532", target: "/var/lib/cordwood", listener: "external", port: "19092",
		args: []string{"serve", "--config", "/etc/cordwood/cordwood.yaml", "--set", "log.level=debug", "--set", "dev_mode=false"}}, one)
	require.Equal(t, node{service: "n2", id: 2, program: []string{"/opt/bin/cordwood"}, user: "1000", target: "/var/lib", listener: "external", port: "19092",
		args: []string{"serve", "--config=/etc/c/node.yaml"}}, two)
}

func TestTheFileOfARunTouchesNothingOfTheUsers(t *testing.T) {
	l, err := readLayout([]byte(twoNodes(t)))
	require.NoError(t, err)
	require.NoError(t, l.findNodes(cordwoodImage))
	l.nodes[0].host, l.nodes[1].host = 5001, 5002
	text, err := l.generate(generated{project: "p", owner: "me 1 2", room: 1000, settings: map[string]string{"dev_mode": "true"}})
	require.NoError(t, err)
	var out struct {
		Services map[string]object
		Volumes  map[string]object
		Networks map[string]object
	}
	require.NoError(t, yaml.Unmarshal(text, &out))
	require.Len(t, out.Services, 4, "nodes and their helpers, nobody else: %s", text)
	for name, s := range out.Services {
		for _, key := range []string{"build", "container_name", "depends_on"} {
			require.NotContains(t, s, key, name)
		}
		require.Equal(t, "no", s["restart"], name)
		labels := s["labels"].(object)
		require.Equal(t, "p", labels[projectLabel])
		require.Equal(t, "me 1 2", labels[ownerLabel])
		require.Equal(t, name, labels[serviceLabel])
	}
	helper, own := out.Services["n1"], out.Services["n1-node"]
	require.Equal(t, []any{"127.0.0.1:5001:19092"}, helper["ports"], "no port that a cluster of the user's may have")
	require.Equal(t, "n1", helper["hostname"])
	require.Equal(t, []any{"torture", "hold", "/var/lib/cordwood/boot_id"}, helper["command"])
	require.Equal(t, []any{"torture-n1:/var/lib/cordwood"}, helper["volumes"])
	require.Equal(t, "service:n1", own["network_mode"])
	for _, key := range []string{"ports", "hostname", "networks"} {
		require.NotContains(t, own, key)
	}
	require.Equal(t, "serve --config /etc/cordwood/cordwood.yaml --set log.level=debug --set dev_mode=true --set listeners.external.advertise=127.0.0.1:5001 "+
		"--set node.boot_id_file=/var/lib/cordwood/boot_id --set node.data_dir=/var/lib/cordwood/data", strings.Join(words(own["command"]), " "))
	volumes := mounts(own["volumes"])
	require.Equal(t, mount{"torture-n1", "/var/lib/cordwood"}, volumes[0])
	require.Equal(t, mount{"other", "/other"}, volumes[2])
	require.Len(t, volumes, 3, "the user's data volume is not mounted")

	require.Equal(t, object{"front": object{"aliases": []any{"second"}}}, out.Services["n2"]["networks"])
	require.NotContains(t, out.Services["n2-node"], "networks")
	require.NotContains(t, out.Networks["front"], "name", "a network of the project's own")
	require.NotContains(t, out.Volumes["other"], "name")
	require.NotContains(t, out.Volumes, "theirs", "nobody uses it")
	require.Equal(t, "size=1000,mode=0755,uid=65532,gid=65532", field(out.Volumes["torture-n1"]["driver_opts"], "o"))
	require.Equal(t, "size=1000,mode=0755,uid=1000,gid=0", field(out.Volumes["torture-n2"]["driver_opts"], "o"))
}

func TestAFileThatSaysTooLittleIsRefusedInOneSentence(t *testing.T) {
	file := nodeFile(t, "1")
	for name, c := range map[string]struct{ text, says string }{
		"nothing":     {"{}", "the file has no services"},
		"no yaml":     {"services: [", "what compose made of the file"},
		"other":       {"services: { a: { image: x, entrypoint: [sleep], command: ['9'] } }", "no service of the file runs `cordwood serve`"},
		"no image":    {"services: { a: { image: x, command: [serve] } }", `image "x" of service a is not on this machine`},
		"host":        {"services: { a: { image: 'cordwood:latest', network_mode: host } }", "service a has network_mode host"},
		"lost config": {"services: { a: { image: 'cordwood:latest', command: [serve, --config, /x] } }", "service a: its configuration /x is no file of this machine"},
		"bad config":  {"services: { a: { image: 'cordwood:latest', environment: { CORDWOOD_NODE_ID: x } } }", "service a: "},
		"twice": {"services: { a: &a { image: 'cordwood:latest', volumes: ['" + file + ":/etc/cordwood/cordwood.yaml'] }, b: *a }",
			"services a and b both run node 1"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := readLayout([]byte(c.text))
			if err == nil {
				err = l.findNodes(cordwoodImage)
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func FuzzLayout(f *testing.F) {
	f.Add([]byte("services: { a: { image: 'cordwood:latest', command: [serve], volumes: ['a:/b', {source: x, target: y}], ports: [1, {target: 2}] } }"))
	f.Add([]byte("services: { a: 1, b: { image: [], environment: [x], networks: [default] } }\nnetworks: { a: 1 }"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Contains(string(text), "/") {
			return // no file of this machine is read
		}
		l, err := readLayout(text)
		if err != nil || l.findNodes(cordwoodImage) != nil {
			return
		}
		if _, err := l.generate(generated{project: "p"}); err != nil {
			t.Fatal(err)
		}
	})
}
