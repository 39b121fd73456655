"""For a manager that may not write: what only looks is done, and all else is refused."""

from collections.abc import Iterable
from typing import Any, NoReturn

from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from rookery.manager.handlers.router import Family, Handlers

LOOKING: frozenset[type[Any]] = frozenset(
    (
        asked.ListSessions,
        asked.ListQuestions,
        asked.ExportSession,
        asked.ListModels,
        asked.ListModes,
        asked.ListBranches,
        asked.FindPaths,
        asked.ListWorktrees,
        asked.ReadStats,
        asked.ListImportable,
        asked.ListKept,
        asked.ListScripts,
        asked.ReviewChanges,
        asked.ReadDiff,
        asked.CompareVersions,
        asked.ListIntents,
        asked.ReadTrace,
        asked.BlameFile,
        asked.ReadSettings,
        asked.ListDevices,
    )
)
"""What needs neither the sessions' processes nor a place to write to."""


class LookingOnly:
    """Instead of some families, with the reason why nothing can be changed."""

    def __init__(self, families: Iterable[Family], why: str) -> None:
        self._families = tuple(families)
        self._why = why

    @property
    def handlers(self) -> Handlers:
        known = {kind: do for each in self._families for kind, do in each.handlers.items()}
        return {kind: do if kind in LOOKING else self._refuse for kind, do in known.items()}

    async def _refuse(self, request: Any) -> NoReturn:
        raise CommandRejected(self._why)
