#!/bin/bash
# The same faults against three nodes of a real Kafka and three of ours, one after the other.
#
#   torture.sh BINARY DIR [TORTURE ARGS...]    DIR must not exist; reports go to DIR/kafka.* and DIR/cordwood.*
#
# Environment: HEAP (512m), of each node of Kafka. Ends with the worse of the two exit codes.
set -euo pipefail
binary=$(realpath "$1")
dir=$(realpath -m "$2")
shift 2
kafka=$(realpath "$(dirname "$0")/kafka.sh")
export HEAP=${HEAP:-512m}
port=25092
mkdir "$dir"
end() { "$kafka" stop "$dir/nodes" >/dev/null 2>&1 || true; }
trap end EXIT
"$kafka" start "$dir/nodes" 3 "$port"

run() { # name args...
  local name=$1 rc=0
  shift
  "$binary" torture --faults kill,killall,pause --html "$dir/$name.html" "$@" >"$dir/$name.txt" || rc=$?
  printf '=== %s\n' "$name"
  cat "$dir/$name.txt"
  return "$rc"
}

worst=0
run kafka --bootstrap "127.0.0.1:$port,127.0.0.1:$((port + 10)),127.0.0.1:$((port + 20))" \
  --kill-cmd "$kafka node kill $dir/nodes {id}" --start-cmd "$kafka node start $dir/nodes {id}" \
  --pause-cmd "$kafka node pause $dir/nodes {id}" --resume-cmd "$kafka node resume $dir/nodes {id}" "$@" || worst=$?
end
run cordwood --nodes 3 "$@" || worst=$((worst > $? ? worst : $?))
echo "reports are in $dir"
exit "$worst"
