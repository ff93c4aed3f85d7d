#!/bin/bash
# The client matrix: fetches the clients that this machine can have into .cache/clients, then starts three nodes, runs all
# and prints one table. Wants bin/cordwood. Arguments go to the program, for example: run.sh -only sarama,kcat
#
# Needs Go; beside it, each for some rows: kcat, a C compiler, Python 3 with venv, Node with npm, Java with Maven. What is
# missing is said and fails the run, unless -skip-absent is given.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$root/.cache/clients
mkdir -p "$cache"

missing() { echo "MISSING: $1; its rows cannot run" >&2; }

kafka=$root/integration/kafka/kafka.sh
if ! command -v java >/dev/null || ! "$kafka" install >"$cache/kafka.log" 2>&1; then
  missing "Java, or Kafka's jars (see $cache/kafka.log)"
  kafka=
fi
# Tools live for seconds: a compiler and a collector that start fast.
export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"

cd "$here"
CGO_ENABLED=0 go build -trimpath -o "$cache/clients" .

exec "$cache/clients" -binary "$root/bin/cordwood" -kafka "$kafka" "$@"
