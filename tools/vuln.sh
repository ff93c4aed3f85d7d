#!/usr/bin/env bash
# Looks for known vulnerabilities that the binary can reach. The database is made of the Go project's, which the module
# proxy has as golang.org/x/vulndb: nothing else is asked. What stands in tools/vuln-known.txt is shown and does not fail.
# Exit codes: 0 nothing new, or not checked, which is said; 1 a new one.
set -euo pipefail
cd "$(dirname "$0")/.."
not_checked() {
  echo "NOT CHECKED for vulnerabilities: $1"
  exit 0
}
cache=$PWD/.cache/vuln
mkdir -p "$cache"

dir=$(cd "$cache" && GOFLAGS= go mod download -json golang.org/x/vulndb@latest 2>"$cache/download.log" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') || true
[ -n "$dir" ] || not_checked "the database cannot be had from the Go module proxy (see $cache/download.log)"
db=$cache/${dir##*@}
if [ ! -e "$db/index/db.json" ]; then
  rm -rf "$db.new"
  (cd "$dir" && GOFLAGS=-mod=mod go run ./cmd/indexdb -vulns data/osv -out "$db.new") >"$cache/index.log" 2>&1 ||
    not_checked "the database cannot be indexed (see $cache/index.log)"
  rm -rf "$db"
  mv "$db.new" "$db"
fi
echo "database: golang.org/x/vulndb ${dir##*@}"

status=0
GOFLAGS= go tool -modfile=tools/go.mod govulncheck -db "file://$db" -tags hashicorpmetrics ./cmd/cordwood >"$cache/found.txt" 2>"$cache/check.log" || status=$?
case $status in
  0 | 3) ;; # 3: it found some
  *) not_checked "govulncheck failed (see $cache/check.log)" ;;
esac
ids=$(sed -n 's/^Vulnerability #[0-9]*: \(GO-[0-9-]*\)$/\1/p' "$cache/found.txt")
[ "$status" = 0 ] || [ -n "$ids" ] || not_checked "govulncheck found some, and its words are not understood (see $cache/found.txt)"
new=0
known() { sed 's/[[:space:]].*//' tools/vuln-known.txt; }
for id in $ids; do
  if grep -qxF "$id" <(known); then kind=known; else kind=NEW new=1; fi
  echo "$kind $id: $(sed -n "/^Vulnerability #[0-9]*: $id\$/,/Example traces/{s/^    Found in: /found in /p;s/^    Fixed in: /fixed in /p}" "$cache/found.txt" | paste -sd, | sed 's/,/, /g')"
done
echo "calls that reach them: $cache/found.txt"
exit "$new"
