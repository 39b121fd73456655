"""The sandbox that commands run in.

Its boundaries belong to the folder that rookery was started in, and are fixed when it is created:
no argument, no file in the workspace and no later change of either can widen them.
"""

import os
import tempfile
import weakref
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock

from rookery import NAME
from rookery.engine.ports.workspace import Launch, WayOut, not_narrowed
from rookery.errors import Denied, ToolError
from rookery.platform.git_folders import (
    NOTE_OF_WORKTREE,
    committing_parts,
    common_folder,
    git_folders,
    git_programs,
    separate_folder,
)
from rookery.platform.locks import hold_folder
from rookery.platform.paths import within, within_any
from rookery.platform.user_folders import real_temporary
from rookery.sandbox.bubblewrap import SharedNetwork, prepare_private, shared_network
from rookery.sandbox.confinement import (
    RESOLVER_SOCKETS,
    Confinement,
    Handoff,
    Narrowed,
    PrivateCaches,
    SandboxOptions,
    Spot,
    folders_between,
    hidden_places,
    narrow,
    never_writable,
    outermost,
    remove_tree,
    shared_caches,
    spot,
    spots,
    spots_inside,
    without,
)
from rookery.sandbox.layers import (
    PROGRAMS,
    Layers,
    SandboxState,
    find_layers,
    no_layers,
    prefix,
)

MOST_PINNED = 500
"""Each pinned folder is a mount, which slows down the start of every command."""


class Sandbox:
    """The sandbox of one workspace. The layers are tested once, on first use.

    Nothing here is asynchronous: the first call runs a trivial command or two, the others access a
    few dozen files. `programs` is the path on which bubblewrap is looked up.
    """

    def __init__(self, options: SandboxOptions, programs: str = PROGRAMS) -> None:
        self._options = options
        self._programs = programs
        self._root = _folder(os.path.realpath(options.root))
        self._home = os.path.realpath(options.home)
        self._own = [path for path in options.own if os.path.realpath(path) != self._root.path]
        self._common = common_folder(self._root.path) if self._has_git_file() else ""
        declared = (os.path.realpath(path) for path in options.writable)
        hidden = self._hidden()
        self._writable_places = without((*shared_caches(self._home), *declared), hidden)
        commits = committing_parts(self._root.path, self._common) if self._common else []
        self._commits = spots(commits)
        self._admin = commits[-1] if commits else ""
        self._caches = PrivateCaches(self._home, writable=self._writable_places, hidden=hidden)
        self._layers: Layers | None = None
        self._private = ""
        self._created: list[str] = []
        """Rookery's own folders that we created, outermost first."""
        self._shared: SharedNetwork | None = None
        self._probing = Lock()

    @property
    def state(self) -> SandboxState:
        if lost := self._workspace_problem():
            return SandboxState(kind="none", why=lost, lost=lost)
        return self._get_layers().state

    @property
    def narrows(self) -> bool:
        return self.state.narrows

    @property
    def mounts(self) -> bool:
        """Whether protected files are visible to commands but read-only."""
        return self.state.kind.startswith("bubblewrap")

    @property
    def proxied(self) -> bool:
        """Whether commands reach the network only through the proxy."""
        return self._options.network == "known" and self.mounts

    @property
    def can_be_offline(self) -> bool:
        """Whether a command can be started without any network."""
        return self._options.network != "on" and self.mounts

    @property
    def open_to_all(self) -> bool:
        """Whether commands reach every host although the setting allows only known ones."""
        wanted = self._options.network == "known" and self._options.mode != "off"
        return wanted and not self.mounts

    @property
    def way_folder(self) -> str:
        """The folder that commands see as their temporary one."""
        self._get_layers()
        return os.path.join(self._private, "tmp")

    @property
    def writable(self) -> tuple[str, ...]:
        """All places outside the workspace where commands can leave files."""
        temporary = (*real_temporary().values(), os.path.realpath(tempfile.gettempdir()))
        places = (*self._writable(self._hidden()), *self._commits)
        return tuple(dict.fromkeys((*(at.path for at in places), *temporary)))

    def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        protected: Sequence[str] = (),
        ignored: Sequence[str] = (),
        writable: Collection[str] | None = None,
        git: bool = True,
        way: WayOut | None = None,
    ) -> Launch:
        """Return how to start a command in the sandbox; unchanged if there is none.

        `cwd` is absolute; `protected`, `ignored` and `writable` are relative to the workspace. Only
        `writable` paths can be written; None means the whole workspace. Without `git`, repositories
        are read-only, if there are mounts. `way` leads to hosts. Raises `Denied` if a sandbox is
        required and there is none, and `ToolError` if the sandbox or the workspace has disappeared.
        """
        self._check_workspace()
        layers = self._get_layers()
        if writable is not None and not layers.state.narrows:
            raise not_narrowed(f"it cannot be confined to that: {layers.state.why}")
        if layers.state.kind == "none":
            return self._unconfined(argv, layers.state)
        self._check_still_there(layers)
        self._make_own_folders()
        confinement = self._confinement(protected, ignored, writable, way, git=git)
        words = prefix(layers, confinement, self._check_inside(cwd))
        return Launch((*words, *argv), self._environment(layers))

    def close(self) -> None:
        """Remove the private temporary folders, and our own folders that we created if they are
        empty."""
        with self._probing:
            self._layers = None
            if self._shared:
                self._shared.close()
                self._shared = None
            if self._private:
                self._remove()
                self._private = ""
            while self._created:
                with suppress(OSError):  # in use by now
                    os.rmdir(self._created.pop())

    def _get_layers(self) -> Layers:
        with self._probing:
            if self._layers is None:
                found = self._find_layers()
                self._check_workspace()  # a failed test means nothing if the folder was replaced
                self._layers = found
            return self._layers

    def _find_layers(self) -> Layers:
        if self._options.mode == "off":
            return no_layers("it is turned off")
        if not self._private:
            self._private = os.path.realpath(tempfile.mkdtemp(prefix=f"{NAME}-"))
            lock = hold_folder(Path(self._private))
            self._remove = weakref.finalize(self, remove_tree, self._private, lock)
            prepare_private(self._private)
            self._caches.make(os.path.join(self._private, "tmp"))
        if self._options.network == "known":
            self._shared = self._open_shared_network()
        joining = self._shared.joining if self._shared else ()
        return find_layers(self._confinement((), (), None), self._programs, joining)

    def _open_shared_network(self) -> SharedNetwork | None:
        return shared_network(self._programs)

    def _unconfined(self, argv: Sequence[str], state: SandboxState) -> Launch:
        if self._options.mode == "required":
            raise Denied(
                f"Commands must run in a sandbox, and there is none here: {state.why}. The "
                "command was not run."
            )
        return Launch(tuple(argv), {})

    @property
    def shared_network(self) -> SharedNetwork | None:
        """The network that all commands share, if they do."""
        able = self._get_layers().able
        return self._shared if able and able.joining else None

    def _check_still_there(self, layers: Layers) -> None:
        if self._shared and layers.able and layers.able.joining:
            self._shared.check()
        if layers.program and not os.access(layers.program, os.X_OK):
            raise ToolError(
                f"The sandbox can no longer start: {layers.program} was removed. The "
                "command was not run."
            )

    def _check_workspace(self) -> None:
        if lost := self._workspace_problem():
            raise ToolError(f"{lost} The command was not run; start again where the files are.")

    def _workspace_problem(self) -> str:
        """Why the workspace cannot be used any more; empty if it can."""
        path = self._root.path
        found = spot(path)
        if not found:
            return f"The folder {path} was removed."
        return "" if found == self._root else f"{path} is no longer the folder it was at the start."

    def _has_git_file(self) -> bool:
        """Whether `.git` is a file. Anything else, such as a pipe, must not be opened."""
        found = spot(os.path.join(self._root.path, ".git"))
        return found is not None and not found.folder

    def _check_inside(self, cwd: str) -> str:
        folder = os.path.realpath(cwd)
        if not within(folder, self._root.path):
            raise Denied(f"{cwd} is outside the workspace. Commands run inside it.")
        return folder

    def _confinement(
        self,
        protected: Iterable[str],
        ignored: Iterable[str],
        part: Collection[str] | None,
        way: WayOut | None = None,
        *,
        git: bool = True,
    ) -> Confinement:
        guarded = self._inside_workspace(protected)
        repositories = [path for path in guarded if os.path.basename(path) == ".git"]
        own = os.path.join(self._root.path, ".git")
        separate = map(separate_folder, (own, *repositories))
        led_to = [path for path in separate if within(path, self._root.path)]
        found = spots(git_folders([own, *repositories, *led_to, self._admin]))
        common = spots([self._common])
        never: tuple[Spot, ...] = () if git else found
        if part is not None:
            git_paths = (at.path for at in (*found, *common))
            never = outermost(spots((*never_writable(self._root.path), *git_paths)))
        fixed = [path for path in guarded if path not in repositories]
        fixed += [each.path for each in never]
        fixed += [each.path for each in found if not each.folder]
        fixed += [program for each in found if each.folder for program in git_programs(each.path)]
        fixed += [os.path.join(self._admin, NOTE_OF_WORKTREE)] if self._admin else []
        fixed += self._options.repositories
        unchangeable = outermost(spots(fixed))
        folders = [each.path for each in unchangeable if each.folder]
        kept = tuple(e for e in found if e.folder and not within_any(e.path, folders))
        masked = self._inside_workspace(ignored)
        hidden = self._hidden()
        writable = self._writable(hidden)
        special = (*masked, *hidden, *(at.path for at in (*kept, *unchangeable)))
        mounted = [*folders, *(at.path for at in kept)]
        narrowed = None
        if part is not None:
            narrowed = narrow(self._root.path, part, never=never, closed=special)
        return Confinement(
            root=self._root,
            home=self._home,
            private=self._private,
            network=self._options.network,
            read=common,
            writable=(*writable, *(self._commits if git and part is None else ())),
            kept=kept,
            pinned=self._parents_to_pin(special, mounted, narrowed, writable),
            fixed=unchangeable,
            hidden=hidden,
            ignored=tuple(masked),
            narrowed=narrowed,
            way=Handoff.by(way, real_temporary()["tmp"]) if way else None,
        )

    def _hidden(self) -> tuple[str, ...]:
        """The hidden places. Looked up for every command, since people add key files while we
        run."""
        names = () if self._options.network == "on" else RESOLVER_SOCKETS
        return hidden_places(self._home, (*self._options.hidden, *self._own, *names))

    def _writable(self, hidden: Sequence[str]) -> tuple[Spot, ...]:
        places = without(self._writable_places, hidden)
        return spots((*places, *folders_between(places, hidden)))

    def _make_own_folders(self) -> None:
        """Create missing folders of ours: one created while a command runs would not be hidden
        from it."""
        for path in (each for each in self._own if not os.path.isdir(each)):
            missing = [str(each) for each in (Path(path), *Path(path).parents) if not each.exists()]
            with suppress(OSError):
                os.makedirs(path, mode=0o700, exist_ok=True)
                self._created += reversed(missing)

    def _parents_to_pin(
        self,
        paths: Iterable[str],
        mounted: Sequence[str],
        narrowed: Narrowed | None,
        writable: Sequence[Spot],
    ) -> tuple[Spot, ...]:
        """The folders that contain the paths and are no mounts yet. If a command could rename
        one, the paths in it would not be protected under the new name."""
        written = [self._root.path]
        if narrowed:
            inside = spots_inside(self._root, writable)
            written = [at.path for at in (*narrowed.folders, *inside)]
        leading = dict.fromkeys(folders_between(written, list(paths)))
        return spots(islice((p for p in leading if not within_any(p, mounted)), MOST_PINNED))

    def _inside_workspace(self, paths: Iterable[str]) -> list[str]:
        """The real paths, if they exist in the workspace."""
        root = self._root.path
        real = dict.fromkeys(os.path.realpath(os.path.join(root, path)) for path in paths)
        inside = (path for path in real if path != root and within(path, root))
        return [path for path in inside if os.path.isfile(path) or os.path.isdir(path)]

    def _environment(self, layers: Layers) -> dict[str, str]:
        temporary = real_temporary()["tmp"]
        if not layers.program:
            temporary = os.path.join(self._private, "tmp")
        return {"TMPDIR": temporary, **self._caches.environment(temporary)}


def _folder(path: str) -> Spot:
    found = spot(path)
    if not found or not found.folder:
        raise ToolError(f"No such folder: {path}.")
    return found
