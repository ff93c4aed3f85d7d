#!/usr/bin/env bash
# Builds the binary and vets every package for the release's platforms that this machine is not.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:--tags=hashicorpmetrics} -trimpath"
for target in linux/amd64 linux/arm64 darwin/arm64; do
  [ "$target" != "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ] || continue
  echo "$target"
  export GOOS=${target%/*} GOARCH=${target#*/}
  go build -o /dev/null ./cmd/cordwood
  go vet ./...
done
