"""What is known of a workspace's code: its index and its outlines. Part of the composition root.

Nothing of it is imported, opened or started before somebody asks.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.core.indexed_code import CodeHits, Definition, Outline
from rookery.core.limits import Limits
from rookery.core.settings import Settings
from rookery.engine.ports import Permit
from rookery.platform.user_folders import Places
from rookery.providers.registry import BASE_URLS, KEY_VARIABLES
from rookery.storage.keys import find_key
from rookery.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from rookery.code_index.code_index import CodeIndex
    from rookery.code_index.outline import Outliner
    from rookery.code_index.syntax import SyntaxReader
    from rookery.providers.embeddings import EndpointEmbedder
    from rookery.workspace.source_files import WorkspaceSources


class CodeKnowledge:
    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        places: Places,
        files: WorkspaceFiles,
        limits: Limits,
    ) -> None:
        self._wish = settings.index
        self._workspace = workspace
        self._places = places
        self._files = files
        self._limits = limits
        self._opened = ExitStack()

    async def search(
        self, query: str, path: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> CodeHits:
        return await self._index.search(query, path, permit, may_show)

    async def outline(self, path: str, text: str) -> Sequence[Definition]:
        return await self._outliner.outline(path, text)

    async def outlines_in(
        self, folder: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> Sequence[Outline] | None:
        return await self._outliner.outlines_in(folder, permit, may_show)

    def close(self) -> None:
        self._opened.close()

    @cached_property
    def _syntax(self) -> "SyntaxReader":
        from rookery.code_index.syntax import SyntaxReader

        return self._opened.enter_context(closing(SyntaxReader()))

    @cached_property
    def _sources(self) -> "WorkspaceSources":
        from rookery.workspace.source_files import WorkspaceSources

        return WorkspaceSources(self._files, self._limits)

    @cached_property
    def _outliner(self) -> "Outliner":
        from rookery.code_index.outline import Outliner

        return Outliner(self._sources, self._syntax)

    @cached_property
    def _index(self) -> "CodeIndex":
        from rookery.code_index.code_index import CodeIndex

        syntax, embedder = self._syntax, self._embedder()  # which must be closed after it
        folder = self._places.code_index(self._workspace)
        index = CodeIndex(folder, self._sources, syntax, embedder=embedder)
        return self._opened.enter_context(closing(index))

    def _embedder(self) -> "EndpointEmbedder | None":
        wish = self._wish
        if not (wish.provider and wish.model):
            return None
        from rookery.providers.embeddings import EndpointEmbedder

        key = find_key(
            wish.provider,
            flag=None,
            variable=KEY_VARIABLES.get(wish.provider),
            environ=os.environ,
            keys_file=self._places.keys_file,
        )
        embedder = EndpointEmbedder(
            wish.provider,
            wish.model,
            base_url=wish.base_url or BASE_URLS.get(wish.provider) or "",
            key=key.reveal() if key else "",
            limits=self._limits,
        )
        return self._opened.enter_context(closing(embedder))
