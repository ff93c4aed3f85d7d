#!/usr/bin/env bash
# Writes THIRD_PARTY: the modules that are linked into bin/cordwood, with versions and licences.
set -euo pipefail
cd "$(dirname "$0")/.."
licence() { # of a module's directory
  local text
  text=$(cat "$1"/LICENSE* "$1"/LICENCE* "$1"/COPYING* 2>/dev/null | tr '\n' ' ' | head -c 4000)
  case "$text" in
  *"Mozilla Public License"*) echo MPL-2.0 ;;
  *"Apache License"*) echo Apache-2.0 ;;
  *"MIT License"* | *"Permission is hereby granted, free of charge"*) echo MIT ;;
  *"Redistribution and use in source and binary forms"*) echo BSD ;;
  *) echo "see its source" ;;
  esac
}
{
  echo "Cordwood links these modules. Their licences are in their sources."
  echo
  go version -m bin/cordwood | awk '$1 == "dep" { d = $2; v = $3 } $1 == "=>" { d = $2; v = $3 } $1 == "dep" || $1 == "=>" { m[d] = v } END { for (d in m) print d, m[d] }' | sort |
    while read -r module version; do
      dir=$(go mod download -json "$module@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
      printf '%-55s %-40s %s\n' "$module" "$version" "$(licence "$dir")"
    done
} >THIRD_PARTY
