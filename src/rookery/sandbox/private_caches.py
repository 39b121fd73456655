"""The caches of commands: what they share with the tools outside, and their own of the rest.

Most tools can be told where their cache is, and many fail if they cannot write there. So they
are led to a private folder that looks like the user's own one: what is there is linked, to be
read, and to be written where it is shared. What is new is private, and gone with the sandbox.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import islice

from rookery.sandbox.confinement import within, within_any
from rookery.sandbox.hidden_places import SHARED_CACHES

VARIABLES = {
    "XDG_CACHE_HOME": ".cache",
    "npm_config_cache": ".npm",
    "BUN_INSTALL_CACHE_DIR": ".bun/install/cache",
}
"""By which variable tools are led to the private folder for which one at home."""

FRESH = (
    ".bun/install/cache",
    ".cache/bazel",
    ".cache/ccache",
    ".cache/deno",
    ".cache/pip/wheels",
    ".cache/pnpm",
    ".cache/pypoetry/artifacts",
    ".cache/pypoetry/cache",
    ".cache/uv",
    ".cache/zig",
    ".npm/_npx",
)
"""Tools that find one of these unwritable give up. So they find nothing, and make it anew."""

OPENED = (
    ".cache/node/corepack/v1/npm",
    ".cache/node/corepack/v1/pnpm",
    ".cache/node/corepack/v1/yarn",
    ".cache/pypoetry/virtualenvs",
)
"""Whatever is in one of these is used as it is, and new things are put beside it."""

MOST_LINKED = 2_000
_FOLDER = "caches"


class PrivateCaches:
    """`writable` and `hidden` are canonical places, which are not the private folder's matter."""

    def __init__(self, home: str, *, writable: Sequence[str], hidden: Sequence[str]) -> None:
        self._home = home
        self._left_alone = (*writable, *hidden)
        self._led = {
            variable: place
            for variable, place in VARIABLES.items()
            if not within_any(os.path.realpath(os.path.join(home, place)), writable)
        }

    def make(self, temporary: str) -> None:
        for place in self._led.values():
            self._open(place, os.path.join(temporary, _FOLDER))

    def environment(self, temporary: str) -> dict[str, str]:
        """`temporary` is the same folder as the command sees it."""
        return {
            variable: os.path.join(temporary, _FOLDER, place)
            for variable, place in self._led.items()
        }

    def _open(self, place: str, private: str) -> None:
        os.makedirs(os.path.join(private, place), mode=0o700, exist_ok=True)
        for name in self._names(place):
            inner = f"{place}/{name}"
            real = os.path.join(self._home, inner)
            if self._is_opened(inner, real):
                self._open(inner, private)
            else:
                os.symlink(real, os.path.join(private, inner))

    def _is_opened(self, place: str, real: str) -> bool:
        if within_any(os.path.realpath(real), self._left_alone) or not os.path.isdir(real):
            return False
        return any(within(known, place) for known in (*SHARED_CACHES, *FRESH, *OPENED))

    def _names(self, place: str) -> Iterator[str]:
        if place in FRESH:
            return iter(())
        try:
            return islice(os.listdir(os.path.join(self._home, place)), MOST_LINKED)
        except OSError:
            return iter(())  # what is not there or cannot be listed is no cache to read from
