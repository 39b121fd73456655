"""Static files of the page. They hold no data and are served without authentication, compressed
for browsers that accept it.

They are read at start, and only files found then are served, so no request path can reach anything
else.
"""

import gzip
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from rookery import NAME
from rookery.errors import SettingsError

FOLDER = Path(__file__).parent / "page"
HOW_TO_BUILD = "make web"
IMMUTABLE = "public, max-age=31536000, immutable"
NO_STORE = "no-store"
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Content type by suffix. Other files are not served."""
_INDEX = "index.html"
_NAMED_BY_CONTENT = re.compile(r".+-[A-Za-z0-9_-]{8}\.[a-z0-9]+")
_COMPRESSED = {".css", ".html", ".js", ".json", ".svg", ".txt", ".webmanifest"}
_LARGEST = 8 * 2**20
_NOT_BUILT = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{NAME}</title>
<h1>The page is not built yet</h1>
<p>Run <code>{HOW_TO_BUILD}</code> in the checkout, which needs Node, and start again.</p>
<p>Everything can also be done with <code>{NAME} sessions</code>.</p>
</html>
"""


class PageFile(Struct, frozen=True):
    content: bytes
    content_type: str
    cached: str
    compressed: bytes = b""
    """With gzip; empty if that is not smaller."""


class PageFiles:
    def __init__(self, folder: Path | None = None) -> None:
        self._files: Mapping[str, PageFile] = dict(_files_in(folder or FOLDER))

    @property
    def is_built(self) -> bool:
        return f"/{_INDEX}" in self._files

    def at(self, path: str) -> PageFile | None:
        """The file at a request path, undecoded."""
        if path != "/":
            return self._files.get(path)
        return self._files.get(f"/{_INDEX}") or _file(_INDEX, _NOT_BUILT.encode())


def _files_in(folder: Path) -> Iterator[tuple[str, PageFile]]:
    for where, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = Path(where) / name
            if path.suffix in CONTENT_TYPES and not path.is_symlink():
                within = path.relative_to(folder).as_posix()
                yield f"/{within}", _file(within, _content(path))


def _file(within: str, content: bytes) -> PageFile:
    path = PurePosixPath(within)
    lasts = len(path.parts) > 1 and _NAMED_BY_CONTENT.fullmatch(path.name)
    cached = IMMUTABLE if lasts else NO_STORE
    compressed = gzip.compress(content, mtime=0) if path.suffix in _COMPRESSED else content
    smaller = compressed if len(compressed) < len(content) else b""
    return PageFile(content, CONTENT_TYPES[path.suffix], cached, smaller)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise SettingsError(f"{path} is too large for a file of the page. Build it: {HOW_TO_BUILD}")
    return content
