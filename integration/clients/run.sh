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

python=$cache/python/bin/python
if ! { [ -x "$python" ] || python3 -m venv "$cache/python"; } >"$cache/python.log" 2>&1 ||
  ! "$python" -m pip install -q --disable-pip-version-check -r "$here/python/requirements.txt" >>"$cache/python.log" 2>&1; then
  missing "Python, or confluent-kafka for it (see $cache/python.log)"
  python=
fi

# Packages go beside a copy of the client, because Node looks for them there.
kafkajs=$cache/kafkajs
mkdir -p "$kafkajs"
cp "$here"/kafkajs/{client.js,package.json,package-lock.json} "$kafkajs"
if ! cmp -s "$kafkajs/package-lock.json" "$kafkajs/installed"; then
  if (cd "$kafkajs" && npm ci --no-audit --no-fund) >"$cache/kafkajs.log" 2>&1; then
    cp "$kafkajs/package-lock.json" "$kafkajs/installed"
  else
    missing "Node with npm, or kafkajs and its codecs (see $cache/kafkajs.log)"
    kafkajs=
  fi
fi

cd "$here"
confluent=$cache/confluent-kafka-go
if ! CGO_ENABLED=1 go build -trimpath -o "$confluent" ./confluent >"$cache/confluent.log" 2>&1; then
  missing "a C compiler for confluent-kafka-go (see $cache/confluent.log)"
  confluent=
fi
CGO_ENABLED=0 go test . # the matrix must be able to miss
CGO_ENABLED=0 go build -trimpath -o "$cache/clients" .

exec "$cache/clients" -binary "$root/bin/cordwood" -kafka "$kafka" \
  -python "$python" -kafkajs "${kafkajs:+$kafkajs/client.js}" -confluent "$confluent" "$@"
