#!/usr/bin/env bash
# Asks a fresh node of ours, built before, the recorded questions, and compares its answers with those that a real Kafka 4.4
# gave. docs/kafka-differences.tsv says which differences are meant, and why. ONLY names other scenarios, by prefix; more
# arguments go to the oracle (-v prints every step).
set -euo pipefail
cd "$(dirname "$0")/../.."
exec go run ./integration/oracle node -bin "${CORDWOOD:-bin/cordwood}" -fixtures integration/testdata/kafka-4.4.0/answers \
  -only "${ONLY:-01-,02-,03-,04-,05-,06-,07-,08-,09-,13-,14-,15-}" -explained docs/kafka-differences.tsv "$@"
