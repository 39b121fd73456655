#!/bin/sh
# Runs a command as on a machine with only Python, git and make: the optional programs that the
# product or its tests use are hidden by an empty mount, for this command alone.
#
#     sh tests/bare_machine.sh .venv/bin/python -m pytest tests/workspace
set -eu
cd "$(dirname "$0")/.."

own=
[ "$(id -u)" = 0 ] || own=--map-root-user
exec unshare --mount $own sh -c '
for name in bwrap chromium chromium-browser fish node nodejs npm npx rg strace tmux zsh; do
    for folder in .venv/bin /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
        [ ! -e "$folder/$name" ] || mount --bind /dev/null "$(readlink -f "$folder/$name")"
    done
    if path=$(command -v "$name"); then
        echo "$path cannot be hidden." >&2
        exit 1
    fi
done
exec "$@"' sh "$@"
