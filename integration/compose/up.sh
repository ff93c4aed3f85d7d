#!/usr/bin/env bash
# Starts the three containers and returns when all are healthy; after 60 s it prints the logs' last lines and fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
compose=${COMPOSE:-docker-compose}
end=$((SECONDS + 60))
# Kernels give 39092 to outgoing connections, too, which hold it for a moment: then it is tried again.
tries=1
until $compose up -d --no-build; do
  [ $((tries++)) -lt 10 ] || exit 1
  read -rt 2 <> <(:) || true
done
while [ $SECONDS -lt $end ]; do
  healthy=0
  for s in n1 n2 n3; do
    id=$($compose ps -q $s)
    [ -n "$id" ] && [ "$(docker inspect -f '{{.State.Health.Status}}' "$id")" = healthy ] && healthy=$((healthy + 1))
  done
  if [ $healthy = 3 ]; then
    echo "three nodes are healthy: localhost:19092, localhost:29092, localhost:39092"
    exit 0
  fi
  read -rt 0.3 <> <(:) || true
done
echo "not healthy after 60 s:" >&2
$compose logs --tail 20 >&2
exit 1
