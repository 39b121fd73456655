"""The files of a workspace that may be indexed: those that a search looks into."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rookery.core.indexed_code import Found, Listing, Mark, Source
from rookery.core.limits import Limits
from rookery.core.text.characters import as_utf8
from rookery.engine.ports.files import FileText
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.text_files import decoded

if TYPE_CHECKING:
    from rookery.workspace.tree import Tree


class WorkspaceSources:
    def __init__(self, files: WorkspaceFiles, limits: Limits) -> None:
        self._boundaries = files.boundaries
        self._limits = limits

    def list(self, most: int, largest: int) -> Listing:
        tree = self._tree("")
        files = [found for found in self._found(tree) if found.mark[0] <= largest]
        notes = (f"(Only {most} of {len(files)} files are indexed.)",) if len(files) > most else ()
        complete = not tree.incomplete and not tree.unreadable
        return Listing(files=files[:most], complete=complete, notes=notes)

    def exists(self, path: str) -> bool:
        return (self._boundaries.root / path).exists()

    def in_folder(self, folder: str) -> Sequence[str] | None:
        if not (self._boundaries.root / folder).is_dir():
            return None
        entries = self._tree(folder).entries(folder)
        return [entry.path for entry in entries if not entry.is_folder and not entry.link]

    def read(self, path: str, largest: int) -> Source | None:
        from rookery.workspace.open_files import Opener

        opener = Opener(self._boundaries.root)
        try:
            opened = opener.open(path)
            if opened is None or opened.size > largest:
                return None
            mark = _mark(os.fstat(opened.descriptor))
            with open(opened.descriptor, "rb", closefd=False) as file:
                data = file.read(largest + 1)
        except OSError:
            return None
        finally:
            opener.close()
        digest = hashlib.sha256(data).digest()
        match decoded(path, data, len(data)):
            case FileText(text=text):
                return Source(text=as_utf8(text), mark=mark, digest=digest)
            case _:
                return Source(text="", mark=mark, digest=digest)

    def _tree(self, start: str) -> "Tree":
        from rookery.workspace.tree import Tree

        root, limits = self._boundaries.root, self._limits
        hiding = self._boundaries.hiding(str(root))
        return Tree(root, start, limits.search_files, limits.search_seconds, hiding)

    def _found(self, tree: "Tree") -> Iterator[Found]:
        top = f"{tree.root}/"
        for path in tree.files(lambda path: True):
            try:
                there = os.stat(top + path, follow_symlinks=False)
            except OSError:
                continue  # gone again
            yield Found(path, _mark(there))


def _mark(there: os.stat_result) -> Mark:
    return there.st_size, there.st_mtime_ns, there.st_ctime_ns, there.st_ino
