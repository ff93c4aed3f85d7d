#!/usr/bin/env bash
# Builds the release tarballs: linux amd64 and arm64, darwin arm64, with SHA256SUMS. The same commit gives the same bytes.
# usage: dist.sh VERSION LDFLAGS
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 ldflags=$2
rm -rf dist
mkdir -p dist
for target in linux/amd64 linux/arm64 darwin/arm64; do
  name=cordwood-${version}-${target%/*}-${target#*/}
  mkdir -p "dist/$name"
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "dist/$name/cordwood" ./cmd/cordwood
  cp LICENSE THIRD_PARTY README.md CHANGELOG.md configs/cordwood.yaml "dist/$name/"
  tar -C dist --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w -c "$name" | gzip -n -9 >"dist/$name.tar.gz"
  rm -rf "dist/$name"
done
cd dist && sha256sum -- *.tar.gz >SHA256SUMS && cat SHA256SUMS
