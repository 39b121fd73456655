"""Outlines for whoever wants to know what a file defines without reading it."""

from collections.abc import Callable, Sequence

import anyio.to_thread

from rookery.code_index.sources import Sources
from rookery.code_index.syntax import LARGEST, SyntaxReader
from rookery.core.indexed_code import Definition, Outline
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied

MOST_FILES = 200


class Outliner:
    def __init__(self, sources: Sources, syntax: SyntaxReader) -> None:
        self._sources = sources
        self._syntax = syntax

    async def outline(self, path: str, text: str) -> Sequence[Definition]:
        """In the order of the file; nothing if its language is not known here."""
        syntax = await anyio.to_thread.run_sync(
            self._syntax.read, path, text, abandon_on_cancel=True
        )
        return syntax.definitions

    async def outlines_in(
        self, folder: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> Sequence[Outline] | None:
        """Of the files in a folder, but not in folders in it; None if it is no folder."""
        if folder not in permit.reads:
            raise Denied(f"There is no permit to look into {folder}.")
        return await anyio.to_thread.run_sync(
            self._outlines_in, "" if folder == "." else folder, may_show, abandon_on_cancel=True
        )

    def _outlines_in(
        self, folder: str, may_show: Callable[[str], bool]
    ) -> Sequence[Outline] | None:
        files = self._sources.in_folder(folder)
        if files is None:
            return None
        outlines: list[Outline] = []
        for path in files[:MOST_FILES]:
            source = self._sources.read(path, LARGEST) if may_show(path) else None
            if source is not None:
                outlines.append(Outline(path, self._syntax.read(path, source.text).definitions))
        return outlines
