#!/bin/sh
# Builds the page if it does not match its sources; --anew always builds it.
# Only a build needs Node.
set -eu
cd "$(dirname "$0")"
page=../src/rookery/manager/web/page
digest() { "${PYTHON:-python3}" sources_digest.py; }
if [ "${1-}" != --anew ] && [ -f "$page/index.html" ] && [ "$(digest)" = "$(cat "$page/sources.sha256" 2>/dev/null)" ]; then
    exit 0
fi
if ! command -v npm >/dev/null; then
    echo "The built page does not match its sources. Install Node (20.19 or newer), then run make web." >&2
    # the tests fail with the same message
    [ "${1-}" = --if-possible ] || exit 1
    exit 0
fi
npm ci --silent --no-audit --no-fund
npm run --silent types
npm run --silent build
digest >"$page/sources.sha256"
