"""The folders where rookery stores its files, and those where commands may write.

`ROOKERY_HOME` puts all of rookery's below one folder. Otherwise the platform's conventions apply,
with separate folders for settings, data, caches and state.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import ENV_PREFIX, NAME, PROJECT_FOLDER
from rookery.errors import SettingsError
from rookery.platform.locks import hold_folder, sweep_folders
from rookery.platform.paths import existing_paths, within_any

HOME_VARIABLE = f"{ENV_PREFIX}HOME"
MCP_FILE = "mcp.json"
OTHER_AGENTS_MCP_FILE = ".mcp.json"
PROJECT_MCP_FILES = (f"{PROJECT_FOLDER}/{MCP_FILE}", f".roo/{MCP_FILE}", OTHER_AGENTS_MCP_FILE)
"""If several define a server, the first one wins."""
CLAUDE_SETTINGS = ("settings.json", "settings.local.json")
_PREFIX = f"{NAME}-"
"""The prefix of temporary folders."""

TEMPORARY = {"tmp": "/tmp", "var-tmp": "/var/tmp"}
"""The machine's temporary folders, by the names of a sandbox's own ones."""

SHARED_CACHES = (
    *(".cache/composer", ".cache/go-build", ".cache/golangci-lint", ".cache/pip/http"),
    *(".cache/pip/http-v2", ".cache/pip/selfcheck", ".cache/sccache", ".cache/yarn", ".cargo/git"),
    *(".cargo/registry", ".composer/cache", ".gem/specs", ".gradle/caches", ".ivy2/cache"),
    *(".local/state/pnpm", ".m2/repository", ".npm/_cacache", ".npm/_logs", ".nuget/packages"),
    *(".nv/ComputeCache", ".rustup/downloads", ".rustup/tmp", ".yarn/berry/cache"),
    *("go/pkg/mod", "go/pkg/sumdb"),
)
"""Caches that commands may write, relative to the home folder. Tools use their files only when the
user installs or builds something. Files that would run outside are not here: folders in a PATH,
configuration, scripts that run by themselves (such as the environments of pre-commit and poetry),
and files that other projects hard-link (such as the stores of uv, pnpm and bun)."""

OTHER_CACHES = (
    ".bun/install/cache",
    ".cache",
    ".local/share/pnpm/store",
    ".pnpm-store",
    "Library/Caches",
)
"""Caches that commands only read; programs in them are not trusted either."""


class _PlacedFile:
    """A file or folder in one of the four folders."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = name

    def __get__(self, places: "Places", owner: object = None) -> Path:
        folder: Path = getattr(places, self._folder)
        return folder / self._name


class Places(Struct, frozen=True):
    """The four folders, which need not exist, and the files in them."""

    config: Path
    data: Path
    cache: Path
    state: Path
    elsewhere: tuple[Path, ...] = ()
    """The folders of other runs, which are hidden from this one's agents."""

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """All folders of rookery, which are hidden from agents."""
        return (self.config, self.data, self.cache, self.state, *self.elsewhere)

    settings_file = _PlacedFile("config", "settings.toml")
    keys_file = _PlacedFile("config", "keys.toml")
    trust_file = _PlacedFile("config", "trust.json")
    rules_file = _PlacedFile("config", "allowed.json")
    """The permanent approvals of the user."""
    governance = _PlacedFile("config", "governance")
    """State of governed workspaces, out of reach of agents."""
    host_writes = _PlacedFile("config", "governance/written")
    """What the host last wrote into governance files."""
    mcp_file = _PlacedFile("config", MCP_FILE)
    mcp_tokens = _PlacedFile("config", "mcp-tokens/tokens.json")
    """Tokens of MCP servers, beside the list of those that are in the keyring."""
    tools_agreed = _PlacedFile("config", "tools-agreed.json")
    """The project tools that the user has approved."""
    mcp_memory = _PlacedFile("cache", "mcp.json")
    """Cached descriptions of MCP servers."""
    model_lists = _PlacedFile("cache", "models.json")
    """Cached lists of the models that providers offer."""
    model_probes = _PlacedFile("cache", "probes.json")
    """Results of `rookery models --probe`."""
    index_file = _PlacedFile("cache", "tasks.sqlite")
    checkpoints = _PlacedFile("data", "checkpoints")
    git_copies = _PlacedFile("data", "git-history")
    """Copies of repositories, kept while a command could destroy them."""
    tasks = _PlacedFile("data", "tasks")
    running = _PlacedFile("state", "running")
    debug_log = _PlacedFile("state", "debug.log")

    def any_mcp_servers(self, workspace: Path) -> bool:
        """Whether a file exists that may define servers. It is not read."""
        files = (self.mcp_file, *(workspace / name for name in PROJECT_MCP_FILES))
        return any(map(os.path.exists, files))

    def any_hooks(self, workspace: Path, governance: Path, *, of_claude: bool) -> bool:
        """Whether a file exists that may define hooks. It is not read."""
        own = (Path("/etc") / NAME, self.config, governance)
        files = [folder / "hooks.json" for folder in own]
        if of_claude:
            files += (workspace / ".claude" / name for name in CLAUDE_SETTINGS)
            files.append(Path.home() / ".claude" / CLAUDE_SETTINGS[0])
        return any(map(os.path.exists, files))

    def code_index(self, workspace: Path) -> Path:
        return self.cache / "code" / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


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
    """Places that are removed afterwards. Settings and keys stay the usual ones, because the run
    must still reach its model."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        lock = hold_folder(Path(folder))
        try:
            elsewhere = (usual.data, usual.cache, usual.state)
            yield replace(_below(Path(folder)), config=usual.config, elsewhere=elsewhere)
        finally:
            os.close(lock)


def sweep_temporary_places() -> None:
    """Remove the places of killed runs; running ones hold a lock in theirs."""
    import tempfile

    sweep_folders(tempfile.gettempdir(), _PREFIX)


def _below(home: Path) -> Places:
    return Places(
        config=home / "config", data=home / "data", cache=home / "cache", state=home / "state"
    )


@cache
def real_temporary() -> dict[str, str]:
    return {name: os.path.realpath(folder) for name, folder in TEMPORARY.items()}


def find_own_program(name: str, root: Path) -> str:
    """The first such program in the PATH that is not in, and does not lead to, the workspace, a
    temporary folder or a cache; empty if there is none."""
    import tempfile

    doubtful = [str(root.resolve()), *caches(str(Path.home()))]
    doubtful += (*real_temporary().values(), os.path.realpath(tempfile.gettempdir()))
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(folder, name)
        places = [os.path.realpath(folder), os.path.realpath(program)]
        if not os.path.isabs(folder) or any(within_any(place, doubtful) for place in places):
            continue
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return ""


def caches(home: str) -> tuple[str, ...]:
    """All existing caches, writable for commands or not."""
    places = (*OTHER_CACHES, *SHARED_CACHES)
    return existing_places(os.path.join(home, place) for place in places)


def existing_places(paths: Iterable[str]) -> tuple[str, ...]:
    outermost: list[str] = []
    for path in sorted(set(existing_paths(paths)), key=lambda path: (path.count("/"), path)):
        if not within_any(path, outermost):
            outermost.append(path)
    return tuple(outermost)
