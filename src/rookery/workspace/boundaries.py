"""Which paths the agent may work on, and which of them are hidden, protected or hold
credentials."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from rookery.core.protected_paths import (
    CREDENTIAL_PLACES,
    LIKE_A_REPOSITORY,
    OBEYED_BY_GIT,
    PARTS_OF_A_REPOSITORY,
    completes_repository,
    credential,
    near_credentials,
    protected,
)
from rookery.engine.ports.workspace import Place
from rookery.errors import ToolError
from rookery.platform.descriptors import HardLinks, TooManyEntries
from rookery.platform.paths import NamedPlaces, real_paths, within_any
from rookery.workspace.paths import IgnoreFiles, IgnoreRules, Located, lexical, locate

if TYPE_CHECKING:
    from rookery.platform.git_folders import ObeyedByGit


class Boundaries:
    """The boundaries of one workspace. `own` are the folders with rookery's own files, `added`
    the resolved folders that the user opened besides the workspace."""

    def __init__(
        self, root: Path, *, home: Path, own: Sequence[Path], added: Sequence[Path] = ()
    ) -> None:
        self._given = root.absolute()
        self.root = root.resolve(strict=True)
        self._home = home
        self._own = own
        self.added = added
        self._ignore = IgnoreFiles(self.root)
        self._ignore_added = {f"{folder}/": IgnoreFiles(folder) for folder in added}
        self._ways: dict[str, tuple[str, ...]] = {}
        """The links by which a path was reached; rules for a link also apply to its target."""

    @cached_property
    def obeyed_by_git(self) -> "ObeyedByGit":
        from rookery.platform.git_folders import ObeyedByGit

        return ObeyedByGit(self.root)

    def locate(self, raw: str) -> str:
        """The canonical path, relative to the workspace or absolute outside it."""
        path, _, ignored = self._resolve(raw)
        if ignored:
            raise self.kept_back(path)
        return path

    def place(self, raw: str) -> Place:
        path, ways, ignored = self._resolve(raw)
        names = [str(self.root / path), *ways]
        is_added = os.path.isabs(path) and within_any(path, map(str, self.added))
        return Place(
            path=path,
            said=raw,
            outside=os.path.isabs(path) and not is_added,
            added=is_added,
            link=bool(ways),
            ignored=ignored,
            protected="" if ignored else self._why_protected(names),
            credential=any(map(self._credentials(), names)),
        )

    def ignore_files(self) -> Sequence[str]:
        """The names of the ignore files that are present."""
        return self._ignore.rules().names

    def kept_back(self, path: str) -> ToolError:
        rules = self._ignore.rules()
        if rules.problem:
            return ToolError(
                f"{rules.problem} {path} was not touched: the user must fix that first."
            )
        return ToolError(
            f"{path} is hidden from you by the user ({_named(rules)}); "
            "nothing was done. Continue without it, or ask the user for what you "
            "need to know."
        )

    def hiding(self, top: str, withheld: Callable[[str], bool] | None = None) -> "HiddenEntries":
        """The entries that a walk through the folder must skip, by the current rules. `withheld`
        tells which workspace files to skip as well."""
        secret = self._secret_places()
        near = near_credentials(top, str(self._home), secret)
        is_credential = self._credentials(secret) if near else lambda path: False
        return HiddenEntries(
            self._ignore.rules(),
            is_credential,
            self.root,
            top,
            withheld,
            self._is_hidden_in_added if self.added else None,
        )

    def _resolve(self, raw: str) -> tuple[str, tuple[str, ...], bool]:
        """The canonical path, the links on the way, and whether it is hidden from the agent. If
        its name alone is hidden, the disk is not accessed, so that nothing about it is revealed."""
        rules = self._ignore.rules()
        read = lexical(self.root, raw, also=self._given)
        if self._is_covered(read, rules):
            return self._display_path(read), (), True
        located = locate(self.root, raw, also=self._given)
        ways = self._remember_links(located)
        names = (located.path, *ways)
        ignored = any(self._is_covered(path, rules) for path in names) or _is_linked_to_ignored(
            located.path, rules, HardLinks(self.root), self._display_path
        )
        return self._display_path(located.path), ways, ignored

    def _remember_links(self, located: Located) -> tuple[str, ...]:
        ways = tuple(dict.fromkeys(self._ways.get(located.path, ()) + located.ways))
        if ways:
            self._ways[located.path] = ways
        return ways

    def _is_hidden_in_added(self, path: str) -> bool:
        """Whether the ignore files of an added folder hide a path in it."""
        for folder, files in self._ignore_added.items():
            below = path.removeprefix(folder)
            if below != path and files.rules().cover(below, is_folder=os.path.isdir(path)):
                return True
        return False

    def _is_covered(self, path: str, rules: IgnoreRules) -> bool:
        if self._is_hidden_in_added(path):
            return True
        below = self._display_path(path)
        if not rules.names or below == "." or below.startswith("/"):
            return False
        kinds = (os.path.isdir(path),) if os.path.lexists(path) else (False, True)
        return any(rules.cover(below, is_folder=kind) for kind in kinds)

    def _display_path(self, path: str) -> str:
        """Make an absolute path relative to the workspace, if it is inside."""
        if path == str(self.root):
            return "."
        within = f"{self.root}/" if self.root.name else "/"
        return path.removeprefix(within) if path.startswith(within) else path

    def _why_protected(self, names: Sequence[str]) -> str:
        new = not os.path.lexists(names[0])
        reasons = (protected(self._display_path(name), new=new) for name in names)
        if by_name := next(filter(None, reasons), ""):
            return by_name
        if any(self.obeyed_by_git.covers(self._display_path(name)) for name in names):
            return OBEYED_BY_GIT
        return LIKE_A_REPOSITORY if self._in_repository(names[0]) else ""

    def _in_repository(self, path: str) -> bool:
        """Whether git takes a parent folder for a repository, or would with this file in it. The
        workspace's own parents do not count."""
        folder, names = _names_below(str(self.root), path)
        for name in names:
            parts = (part for part in PARTS_OF_A_REPOSITORY if os.path.lexists(f"{folder}/{part}"))
            if completes_repository(name, list(parts)):
                return True
            folder = f"{folder}/{name}"
        return False

    def _credentials(self, secret: Sequence[str] | None = None) -> Callable[[str], bool]:
        places = self._secret_places() if secret is None else secret
        return lambda path: credential(path, str(self._home), places)

    def _secret_places(self) -> tuple[str, ...]:
        """Rookery's own folders, and credential places that are reached by links. Looked up each
        time, since people add key files and links while we run."""
        home = os.path.realpath(self._home)
        named = () if home == str(self._home) else CREDENTIAL_PLACES
        linked = (os.path.realpath(place) for place, by_link in _PLACES.below(home) if by_link)
        real = {*linked, *(f"{home}/{place}" for place in named)}
        own = tuple(map(str, self._own))
        return (*own, *sorted(real.union(real_paths(own))))


@lru_cache
def _names_below(root: str, path: str) -> tuple[str, Sequence[str]]:
    """The root with the names that lead from it to the path, or the top of the disk."""
    inner = PurePosixPath(path)
    top = root if inner.is_relative_to(root) else "/"
    return top, inner.relative_to(top).parts


_PLACES = NamedPlaces(CREDENTIAL_PLACES)


class HiddenEntries:
    """Decides which entries below the folder `top` are hidden, and counts them."""

    def __init__(
        self,
        rules: IgnoreRules,
        is_credential: Callable[[str], bool],
        root: Path,
        top: str,
        withheld: Callable[[str], bool] | None = None,
        is_hidden_in_added: Callable[[str], bool] | None = None,
    ) -> None:
        self._withheld = withheld
        self._is_hidden_in_added = is_hidden_in_added
        self._rules = rules
        self._is_credential = is_credential
        self._root = root
        self._top = top
        self._links = HardLinks(root)
        self.ignored = 0
        self.credentials = 0
        self.ruled_out = 0

    def hides(self, path: str, *, is_folder: bool, target: str = "") -> bool:
        """Whether to hide an entry of a visible folder; `target` is where a link leads."""
        absolute = f"{self._top.rstrip('/')}/{path}"
        leads = os.path.normpath(os.path.join(os.path.dirname(absolute), target)) if target else ""
        if self._is_ignored(absolute, is_folder=is_folder) or (leads and self._covers(leads)):
            self.ignored += 1
            return True
        if self._is_credential(absolute):
            self.credentials += 1
            return True
        if self._withheld and any(map(self._is_withheld, filter(None, (absolute, leads)))):
            self.ruled_out += 1
            return True
        return False

    def _is_withheld(self, absolute: str) -> bool:
        below = absolute.removeprefix(f"{str(self._root).rstrip('/')}/")
        return self._withheld is not None and self._withheld(below)

    def notes(self) -> Iterator[str]:
        if self._rules.problem:
            yield f"({self._rules.problem} No file is shown until the user fixes that.)"
        elif self.ignored:
            yield f"({self.ignored} hidden by {_named(self._rules)}.)"
        if self.ruled_out:
            yield f"({self.ruled_out} hidden by the rules of the intent.)"
        if self.credentials:
            yield f"({self.credentials} hidden: credentials.)"

    def _is_ignored(self, absolute: str, *, is_folder: bool) -> bool:
        if self._is_hidden_in_added and self._is_hidden_in_added(absolute):
            return True
        below = self._below(absolute) if self._rules.names else ""
        if below and self._rules.hides(below, is_folder=is_folder):
            return True
        return _is_linked_to_ignored(absolute, self._rules, self._links, self._below)

    def _covers(self, absolute: str) -> bool:
        if self._is_hidden_in_added and self._is_hidden_in_added(absolute):
            return True
        below = self._below(absolute) if self._rules.names else ""
        return bool(below) and self._rules.cover(below, is_folder=os.path.isdir(absolute))

    def _below(self, absolute: str) -> str:
        within = f"{self._root}/" if self._root.name else "/"
        return absolute.removeprefix(within) if absolute.startswith(within) else ""


def _named(rules: IgnoreRules) -> str:
    return " and ".join(rules.names) or "an ignore file of the added folder"


def _is_linked_to_ignored(
    path: str, rules: IgnoreRules, links: HardLinks, below: Callable[[str], str]
) -> bool:
    """Whether the file has, or may have, a hard link with a hidden name."""
    if not rules.names:
        return False
    try:
        return any(rules.cover(below(name), is_folder=False) for name in links.names_of(path))
    except TooManyEntries:
        return True
