"""A zip file to share: the session as a page and as lines, and a manifest with their hashes.

Secrets are replaced in every event before it is rendered, so that a title that is cut off cannot
keep half of one, and known secrets once more in the page. Images are left out, because they cannot
be searched. The same session gives the same bytes.
"""

import hashlib
import io
import os
import pwd
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress

import msgspec

from rookery import NAME, VERSION
from rookery.core.text.characters import whole
from rookery.core.text.scrubber import Scrubber
from rookery.platform.user_folders import Places
from rookery.storage.cli.export import SessionDocument
from rookery.storage.keys import stored_keys
from rookery.storage.sessions import TaskStore

MANIFEST_FORMAT = 1
CAUTION = (
    "A search cannot find every secret, such as compressed ones or those in a form it "
    "does not know. Read the bundle before you share it."
)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


class BundledFile(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    sha256: str


class ShareBundle:
    """One session, ready to be shared."""

    def __init__(self, store: TaskStore, task_id: str, places: Places) -> None:
        # a key that cannot be read could not be searched for, so then there is no bundle
        keys = list(stored_keys(places.keys_file))
        self._scrub = Scrubber(keys=keys, environment=os.environ, homes=_homes(), user=_user())
        self._replaced: dict[str, int] = {}
        self.document = SessionDocument(store, task_id, self._scrub)

    def pieces(self) -> Iterator[bytes]:
        """The zip file, in pieces."""
        sink = _Sink()
        files: list[BundledFile] = []
        with (
            closing(self.document),
            zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            self._scrub.found.clear()  # what is reported is counted once
            lines = self.document.pieces("jsonl")
            yield from _member(archive, sink, "session.jsonl", lines, files)
            self._replaced = {kind: n for kind, n in sorted(self._scrub.found.items()) if n}
            page = map(self._scrub.known, self.document.pieces("html"))
            yield from _member(archive, sink, "session.html", page, files)
            yield from _member(archive, sink, "manifest.json", [self._manifest(files)], files)
        yield sink.taken()

    def report(self) -> list[str]:
        """What was replaced, as sentences for the user."""
        counts = ", ".join(f"{kind} {count}" for kind, count in self._replaced.items())
        return [f"Replaced: {counts or 'nothing'}.", CAUTION]

    def _manifest(self, files: Iterable[BundledFile]) -> str:
        said = {
            "tool": NAME,
            "version": VERSION,
            "format": MANIFEST_FORMAT,
            "sessions": [self.document.name(one.id) for _, one in self.document.family],
            "files": list(files),
            "replaced": self._replaced,
            "damage": [self._scrub.text(each) for each in self.document.damage],
            "caution": CAUTION,
        }
        return msgspec.json.format(msgspec.json.encode(said), indent=2).decode() + "\n"


class _Sink(io.RawIOBase):
    """Keeps what is written until it is taken. It cannot seek, so the archive is written in one
    pass."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._pieces.append(piece)
        return len(piece)

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _member(
    archive: zipfile.ZipFile,
    sink: _Sink,
    name: str,
    pieces: Iterable[str],
    files: list[BundledFile],
) -> Iterator[bytes]:
    info = zipfile.ZipInfo(name, _LONG_AGO)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
    digest, size = hashlib.sha256(), 0
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            data = whole(piece).encode()
            member.write(data)
            digest.update(data)
            size += len(data)
            yield sink.taken()
    yield sink.taken()
    files.append(BundledFile(name, size, digest.hexdigest()))


def _homes() -> set[str]:
    home = os.path.expanduser("~")
    return {home, os.path.realpath(home)}


def _user() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return os.environ.get("USER", "")
