#!/bin/sh
# Makes the page from these sources, unless it is newer than all of them.
set -eu
cd "$(dirname "$0")"
page=../src/rookery/manager/web/page/index.html
if ! command -v npm >/dev/null; then
    echo "The page is made with Node (20.19 or newer), and there is no npm here: install Node, then run make web." >&2
    # without the page the tests that look at it are left out, and say so
    [ "${1-}" = --if-possible ] || exit 1
    exit 0
fi
newer() {
    find . ../docs/schemas/manager.schema.json -name node_modules -prune -o -type f -newer "$page" -print
}
if [ -f "$page" ] && [ -d node_modules ] && [ -z "$(newer)" ]; then
    exit 0
fi
npm ci --silent --no-audit --no-fund
npm run --silent types
npm run --silent build
touch "$page"
