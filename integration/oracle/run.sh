#!/usr/bin/env bash
# Asks one fresh node the recorded questions and compares its answers with those that a real Kafka 4.4 gave.
# docs/kafka-differences.tsv says which differences are meant, and why. ONLY names other scenarios, by prefix.
set -euo pipefail
cd "$(dirname "$0")/../.."
only=${ONLY:-01-,02-,03-,04-,05-,06-,07-,08-,09-,13-,14-,15-}
dir=$(mktemp -d)
read -r kafka internal raft gossip http < <(python3 - <<'P'
import socket
held = [socket.socket() for _ in range(5)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
P
)
cat >"$dir/node.yaml" <<Y
node: { id: 1, data_dir: $dir/data }
listeners:
  internal: { bind: "127.0.0.1:$internal", advertise: "127.0.0.1:$internal" }
  external: { bind: "127.0.0.1:$kafka", advertise: "127.0.0.1:$kafka" }
raft: { bind: "127.0.0.1:$raft", advertise: "127.0.0.1:$raft" }
gossip: { bind: "127.0.0.1:$gossip", advertise: "127.0.0.1:$gossip" }
http: { bind: "127.0.0.1:$http" }
storage: { disk_stop: 64MiB }
Y
bin/cordwood serve --config "$dir/node.yaml" 2>"$dir/log" &
node=$!
clean() {
  code=$?
  kill $node 2>/dev/null && wait $node 2>/dev/null || true
  [ $code = 0 ] || tail -20 "$dir/log"
  rm -rf "$dir"
  exit $code
}
trap clean EXIT
bin/cordwood -b "127.0.0.1:$kafka" health --exit-when-healthy --timeout 20s >/dev/null
go run ./integration/oracle compare -b "127.0.0.1:$kafka" -fixtures integration/testdata/kafka-4.4.0/answers -only "$only" -explained docs/kafka-differences.tsv
