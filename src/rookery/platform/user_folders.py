"""Where things are kept.

`ROOKERY_HOME` puts everything below one folder. Without it the platform's conventions hold,
which keep settings, data, caches and state apart.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import ENV_PREFIX, NAME
from rookery.errors import SettingsError

HOME_VARIABLE = f"{ENV_PREFIX}HOME"
_PREFIX = f"{NAME}-"
"""How the names of folders for temporary places begin."""
_RANDOM = 8
"""Characters that follow, which make a name a new one."""
_LOCK = "lock"


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
            f"There is no home folder: HOME is not set. Set {HOME_VARIABLE} to a folder that can "
            "be written."
        ) from error


@contextmanager
def temporary_places(usual: Places) -> Iterator[Places]:
    """Places that are gone afterwards. Settings and keys stay where they usually are, because
    a run that keeps nothing must still be able to reach its model.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder, _held(Path(folder)):
        elsewhere = (usual.data, usual.cache, usual.state)
        yield replace(_below(Path(folder)), config=usual.config, elsewhere=elsewhere)


def sweep_temporary_places() -> None:
    """Remove those of runs that were killed: whoever is alive holds the lock in theirs."""
    import tempfile

    parent = tempfile.gettempdir()
    with suppress(OSError):  # who may not look into it has left nothing that could be found
        for name in os.listdir(parent):
            if name.startswith(_PREFIX) and len(name) == len(_PREFIX) + _RANDOM:
                _sweep(f"{parent}/{name}")


def _sweep(path: str) -> None:
    # there may be thousands that are none of these, and every run comes by
    if not os.path.lexists(f"{path}/{_LOCK}"):
        return
    folder = Path(path)
    with suppress(OSError):  # it is held, somebody else's, or gone by now
        if not folder.is_symlink() and folder.stat().st_uid == os.getuid():
            _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    import shutil

    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the lock goes last: while anything is left, the folder can be found again
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """A lock that ends with this process, however it ends. It is held before it can be seen."""
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(folder / _LOCK)
        yield
    finally:
        os.close(lock)


def _below(home: Path) -> Places:
    return Places(
        config=home / "config", data=home / "data", cache=home / "cache", state=home / "state"
    )
