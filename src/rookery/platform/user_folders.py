"""Where things are kept.

`ROOKERY_HOME` puts everything below one folder. Without it the platform's conventions hold,
which keep settings, data, caches and state apart.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import ENV_PREFIX, NAME
from rookery.errors import SettingsError
from rookery.platform.locks import hold_folder, sweep_folders

HOME_VARIABLE = f"{ENV_PREFIX}HOME"
_PREFIX = f"{NAME}-"
"""How the names of folders for temporary places begin."""


class Places(Struct, frozen=True):
    """Four folders, none of which need exist, and what lies in them."""

    config: Path
    data: Path
    cache: Path
    state: Path
    elsewhere: tuple[Path, ...] = ()
    """Where other runs keep their things, which are nobody's business in this one."""

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """All that is ours, and no agent's business."""
        return (self.config, self.data, self.cache, self.state, *self.elsewhere)

    @property
    def settings_file(self) -> Path:
        return self.config / "settings.toml"

    @property
    def keys_file(self) -> Path:
        return self.config / "keys.toml"

    @property
    def trust_file(self) -> Path:
        return self.config / "trust.json"

    @property
    def rules_file(self) -> Path:
        """What the user has allowed for good."""
        return self.config / "allowed.json"

    @property
    def governance(self) -> Path:
        """What is kept of governed workspaces, where no agent can reach it."""
        return self.config / "governance"

    @property
    def host_writes(self) -> Path:
        """What the host last wrote into files of governance."""
        return self.governance / "written"

    @property
    def mcp_file(self) -> Path:
        """The user's own MCP servers."""
        return self.config / "mcp.json"

    @property
    def tools_agreed(self) -> Path:
        """Which tools of projects a person has agreed to."""
        return self.config / "tools-agreed.json"

    @property
    def mcp_memory(self) -> Path:
        """What is remembered of servers, so that they need not be asked again."""
        return self.cache / "mcp.json"

    def code_index(self, workspace: Path) -> Path:
        return self.cache / "code" / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]

    @property
    def checkpoints(self) -> Path:
        return self.data / "checkpoints"

    @property
    def git_copies(self) -> Path:
        """Of repositories, for as long as a command could destroy them."""
        return self.data / "git-history"

    @property
    def running(self) -> Path:
        """Which commands are running."""
        return self.state / "running"

    @property
    def tasks(self) -> Path:
        return self.data / "tasks"

    @property
    def index_file(self) -> Path:
        return self.cache / "tasks.sqlite"

    @property
    def debug_log(self) -> Path:
        return self.state / "debug.log"


def find_places(environ: Mapping[str, str]) -> Places:
    if home := environ.get(HOME_VARIABLE):
        return _below(Path(home).expanduser().absolute())
    from platformdirs import PlatformDirs

    found = PlatformDirs(NAME, appauthor=False)
    try:
        return Places(
            config=found.user_config_path,
            data=found.user_data_path,
            cache=found.user_cache_path,
            state=found.user_state_path,
        )
    except RuntimeError as error:
        raise SettingsError(
            f"No home folder: HOME is not set. Set {HOME_VARIABLE} to a writable folder."
        ) from error


@contextmanager
def temporary_places(usual: Places) -> Iterator[Places]:
    """Places that are gone afterwards. Settings and keys stay where they usually are, because
    a run that keeps nothing must still be able to reach its model.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        lock = hold_folder(Path(folder))
        try:
            elsewhere = (usual.data, usual.cache, usual.state)
            yield replace(_below(Path(folder)), config=usual.config, elsewhere=elsewhere)
        finally:
            os.close(lock)


def sweep_temporary_places() -> None:
    """Remove those of runs that were killed: whoever is alive holds the lock in theirs."""
    import tempfile

    sweep_folders(tempfile.gettempdir(), _PREFIX)


def _below(home: Path) -> Places:
    return Places(
        config=home / "config", data=home / "data", cache=home / "cache", state=home / "state"
    )
