#!/usr/bin/env bash
# Torture of the cluster in containers: a run with faults of all classes ends well and leaves nothing behind; nor does one
# that is interrupted, nor one that is killed. Needs a Docker engine, the image and bin/cordwood. Arguments are those of
# cordwood torture.
set -euo pipefail
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
pid=
clean() {
  code=$?
  [ -z "$pid" ] || kill -INT "$pid" 2>/dev/null || true
  rm -rf "$tmp"
  exit $code
}
trap clean EXIT
say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
torture() { bin/cordwood torture --compose docker-compose.yml "$@"; }
left() { # what of any run there still is
  docker ps -aq --filter label=cordwood.torture
  docker network ls -q --filter label=cordwood.torture
  docker volume ls -q --filter label=cordwood.torture
  for f in "${TMPDIR:-/tmp}"/cordwood-demo-*/compose.yaml; do [ ! -e "$f" ] || echo "$f"; done
}
until_true() { # seconds what command…
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $end ] || { echo "not within the time: $what" >&2; left >&2; exit 1; }
    read -rt 0.3 <> <(:) || true
  done
}
nothing_left() { [ -z "$(left)" ]; }
running() { [ -n "$(docker ps -q --filter label=cordwood.torture.service=n3-node)" ]; }

nothing_left || { echo "there are leftovers, or another run: $(left)"; exit 1; }
torture --duration 75s --faults all "$@" -o json >"$tmp/report"
python3 - "$tmp/report" <<'P'
import json, sys
r = json.load(open(sys.argv[1]))
print("verdict %s, %d operations, faults %s" % (r["verdict"], r["operations"], json.dumps(r["faultClasses"])))
for f in r["faultsFailed"]: print("failed:", f)
missing = [c for c in ("process", "network", "disk", "membership") if not r["faultClasses"].get(c)]
assert r["verdict"] == "ok", "verdict " + r["verdict"]
assert not r["faultsFailed"], "faults failed"
# Five classes come up within seven periods, which take longer than ten seconds where a fault waits for the cluster.
assert not missing or r["seconds"] < 110, "no faults of class " + ", ".join(missing)
assert len(missing) < 3, "faults of one class alone"
P
nothing_left || { echo "left behind: $(left)"; exit 1; }
say "a run leaves nothing behind"

for signal in INT KILL; do
  bash -c 'exec bin/cordwood torture -q --compose docker-compose.yml --duration 60s --faults process,network' >"$tmp/out" 2>&1 &
  pid=$!
  until_true 60 "the nodes run" running
  kill -$signal "$pid"
  wait "$pid" 2>/dev/null || true
  pid=
  [ $signal = INT ] || until_true 60 "what a killed run left is removed" nothing_left
  nothing_left || { echo "left behind after SIG$signal: $(left)"; cat "$tmp/out"; exit 1; }
  say "nor does one that got SIG$signal"
done
