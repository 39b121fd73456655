"""The hosts that every command may reach: registries, remotes and what the user lists."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from rookery.core.hosts import Entry, entries
from rookery.sandbox.egress.registries import registries
from rookery.sandbox.egress.remotes import Remotes


class KnownHosts:
    """Those of one session. Its remotes are what they were at its start, and the machine's
    registries are looked up when they are first needed."""

    def __init__(
        self,
        *,
        listed: Sequence[str],
        remotes: Remotes,
        home: Path,
        workspace: Path,
        environ: Mapping[str, str],
    ) -> None:
        self.remotes = remotes
        self._listed = entries(listed)
        self._home = home
        self._workspace = workspace
        self._environ = dict(environ)

    def __call__(self) -> Sequence[Entry]:
        return self._all

    @cached_property
    def _all(self) -> tuple[Entry, ...]:
        found = registries(self._home, self._workspace, self._environ)
        return (*self._listed, *self.remotes.hosts, *found)
