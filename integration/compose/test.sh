#!/usr/bin/env bash
# The container cluster's own test: three healthy containers; a client on the host reads what a container wrote; a killed
# leader loses nothing; `down` and `up` with new addresses forms the same cluster. Needs a Docker engine and bin/cordwood;
# kcat reads too where it is installed. Leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
export COMPOSE=${COMPOSE:-docker-compose} COMPOSE_PROJECT_NAME=cordwood-test
seeds=localhost:19092,localhost:29092,localhost:39092
tmp=$(mktemp -d)
clean() {
  code=$?
  [ $code = 0 ] || $COMPOSE logs --tail 30 || true
  $COMPOSE down -v --remove-orphans >/dev/null 2>&1 || true
  rm -rf "$tmp"
  exit $code
}
trap clean EXIT
say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
cw() { bin/cordwood -b "$seeds" "$@"; }
json() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)"; }

DOCKER_BUILDKIT=0 docker build -q --target prebuilt -t cordwood:latest . >/dev/null
began=$(date +%s%N)
integration/compose/up.sh
say "healthy after $((($(date +%s%N) - began) / 1000000)) ms"
id=$(cw cluster info -o json | json 'd["clusterId"]')

cw topic create across -p 1 -r 3
$COMPOSE exec -T n1 /cordwood -b n1:9092 produce across --count 100 --acks all --tag inside
got=$(cw consume across -O beginning -n 100 -f '%v\n' | grep -c '^inside-')
[ "$got" = 100 ] || { echo "the host read $got of the 100 records that a container wrote"; exit 1; }
if command -v kcat >/dev/null; then
  got=$(kcat -q -b localhost:19092 -C -t across -p 0 -o beginning -c 100 | grep -c '^inside-')
  [ "$got" = 100 ] || { echo "kcat read $got of 100 records"; exit 1; }
  say "kcat on the host reads what a container wrote"
else
  say "kcat is not installed: read by cordwood only"
fi

cw produce across --count 3000 --rate 500/s --acks all --tag load --acked "$tmp/acked" &
writer=$!
while [ "$(cat "$tmp/acked" 2>/dev/null | wc -l)" -lt 500 ]; do read -rt 0.05 <> <(:) || true; done
leader=$(cw topic describe across -o json | json 'd["topics"][0]["partitions"][0]["leader"]')
$COMPOSE kill -s SIGKILL "n$leader" >/dev/null 2>&1
say "killed the leader's container, n$leader"
wait $writer
cw verify across "$tmp/acked"
integration/compose/up.sh
say "down, and up with new addresses"
$COMPOSE down >/dev/null 2>&1
integration/compose/up.sh
again=$(cw cluster info -o json | json 'd["clusterId"]')
[ "$id" = "$again" ] || { echo "another cluster: $id, then $again"; exit 1; }
cw verify across "$tmp/acked"
say "the same cluster, $id, with every acknowledged record"
