"""What of the disk the agent may work on, and what is special about a path in it."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import accumulate
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
from rookery.workspace.paths import IgnoreFiles, IgnoreRules, Located, lexical, locate

if TYPE_CHECKING:
    from rookery.platform.git_programs import ObeyedByGit


class Boundaries:
    """Of one workspace. `own` are the folders in which the product keeps its own things."""

    def __init__(self, root: Path, *, home: Path, own: Sequence[Path]) -> None:
        self._given = root.absolute()
        self.root = root.resolve(strict=True)
        self._home = home
        self._own = own
        self._ignore = IgnoreFiles(self.root)
        self._ways: dict[str, tuple[str, ...]] = {}
        """By which links a path was reached: rules for a link hold for what it leads to."""

    @cached_property
    def obeyed_by_git(self) -> "ObeyedByGit":
        from rookery.platform.git_programs import ObeyedByGit

        return ObeyedByGit(self.root)

    def locate(self, said: str) -> str:
        """The canonical path, relative to the workspace or absolute outside it."""
        path, _, ignored = self._found(said)
        if ignored:
            raise self.kept_back(path)
        return path

    def place(self, said: str) -> Place:
        path, ways, ignored = self._found(said)
        names = [self._absolute(path), *ways]
        return Place(
            path=path,
            said=said,
            outside=os.path.isabs(path),
            link=bool(ways),
            ignored=ignored,
            protected="" if ignored else self._why_protected(names),
            credential=any(map(self._credentials(), names)),
        )

    def ignore_files(self) -> Sequence[str]:
        """The names of the files that keep something from the agent."""
        return self._ignore.rules().names

    def kept_back(self, path: str) -> ToolError:
        rules = self._ignore.rules()
        if rules.problem:
            return ToolError(
                f"{rules.problem} {path} was not touched: the user must fix that first."
            )
        return ToolError(
            f"{path} is hidden from you by the user ({' and '.join(rules.names)}); "
            "nothing was done. Continue without it, or ask the user for what you "
            "need to know."
        )

    def hiding(self, top: str, withheld: Callable[[str], bool] | None = None) -> "HiddenEntries":
        """What a walk through the folder must leave out; the rules are those of this moment.
        Besides, `withheld` tells of files of the workspace whether they are left out."""
        secret = self._secret_places()
        near = near_credentials(top, str(self._home), secret)
        is_credential = self._credentials(secret) if near else _never
        return HiddenEntries(self._ignore.rules(), is_credential, self.root, top, withheld)

    def _found(self, said: str) -> tuple[str, tuple[str, ...], bool]:
        """Where a path leads, by which links, and whether it is kept from the agent. If it is
        by its name alone, nothing else is found out about it: nobody shall learn what is there.
        """
        rules = self._ignore.rules()
        read = lexical(self.root, said, also=self._given)
        if self._covered(read, rules):
            return self._shown(read), (), True
        located = locate(self.root, said, also=self._given)
        ways = self._remembered(located)
        names = (located.path, *ways)
        ignored = any(self._covered(path, rules) for path in names) or _is_linked_to_ignored(
            located.path, rules, HardLinks(self.root), self._shown
        )
        return self._shown(located.path), ways, ignored

    def _remembered(self, located: Located) -> tuple[str, ...]:
        ways = tuple(dict.fromkeys(self._ways.get(located.path, ()) + located.ways))
        if ways:
            self._ways[located.path] = ways
        return ways

    def _covered(self, path: str, rules: IgnoreRules) -> bool:
        below = self._shown(path)
        if not rules.names or below == "." or below.startswith("/"):
            return False
        kinds = (os.path.isdir(path),) if os.path.lexists(path) else (False, True)
        return any(rules.cover(below, is_folder=kind) for kind in kinds)

    def _shown(self, path: str) -> str:
        """An absolute path as it is called: relative to the workspace if it is in it."""
        if path == str(self.root):
            return "."
        within = f"{self.root}/" if self.root.name else "/"
        return path.removeprefix(within) if path.startswith(within) else path

    def _absolute(self, path: str) -> str:
        return str(self.root / path)

    def _why_protected(self, names: Sequence[str]) -> str:
        new = not os.path.lexists(names[0])
        reasons = (protected(self._shown(name), new=new) for name in names)
        if by_name := next(filter(None, reasons), ""):
            return by_name
        if any(self.obeyed_by_git.covers(self._shown(name)) for name in names):
            return OBEYED_BY_GIT
        return LIKE_A_REPOSITORY if self._in_repository(names[0]) else ""

    def _in_repository(self, path: str) -> bool:
        """Whether git takes a folder above for a repository, or would once this file is there.
        What the workspace itself lies in does not count."""
        inner = PurePosixPath(path)
        top = self.root if inner.is_relative_to(self.root) else Path("/")
        names = inner.relative_to(top).parts
        for depth, name in enumerate(names):
            folder = top.joinpath(*names[:depth])
            there = [part for part in PARTS_OF_A_REPOSITORY if os.path.lexists(folder / part)]
            if completes_repository(name, there):
                return True
        return False

    def _credentials(self, secret: Sequence[str] | None = None) -> Callable[[str], bool]:
        places = self._secret_places() if secret is None else secret
        return lambda path: credential(path, str(self._home), places)

    def _secret_places(self) -> tuple[str, ...]:
        """Also where links in the home folder lead: the place is meant, not its name. Looked up
        each time, since people add key files and links while we run."""
        home = os.path.realpath(self._home)
        named = () if home == str(self._home) else CREDENTIAL_PLACES
        real = {*_linked_places(home), *(f"{home}/{place}" for place in named)}
        return (*map(str, self._own), *sorted(real.union(map(os.path.realpath, self._own))))


_STEPS = {place: tuple(accumulate(place.split("/"), "{}/{}".format)) for place in CREDENTIAL_PLACES}
"""Each place with the folders on the way to it, from the outermost."""


def _linked_places(home: str) -> Iterator[str]:
    """Where places below `home` lead over links. Most of them are not there at all."""
    try:
        there = set(os.listdir(home))
    except OSError:
        return
    is_link = cache(lambda below: os.path.islink(f"{home}/{below}"))
    for place, steps in _STEPS.items():
        if steps[0] in there and any(map(is_link, steps)):
            yield os.path.realpath(f"{home}/{place}")


class HiddenEntries:
    """What a walk through the folder `top` leaves out, and how much of it there was."""

    def __init__(
        self,
        rules: IgnoreRules,
        is_credential: Callable[[str], bool],
        root: Path,
        top: str,
        withheld: Callable[[str], bool] | None = None,
    ) -> None:
        self._withheld = withheld
        self._rules = rules
        self._is_credential = is_credential
        self._root = root
        self._top = top
        self._links = HardLinks(root)
        self.ignored = 0
        self.credentials = 0
        self.ruled_out = 0

    def hides(self, path: str, *, is_folder: bool, target: str = "") -> bool:
        """Whether an entry of a folder that is not hidden is; `target` is where a link leads."""
        absolute = f"{self._top.rstrip('/')}/{path}"
        leads = os.path.normpath(os.path.join(os.path.dirname(absolute), target)) if target else ""
        if self._keeps_back(absolute, is_folder=is_folder) or (leads and self._covers(leads)):
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
            yield f"({self.ignored} hidden by {' and '.join(self._rules.names)}.)"
        if self.ruled_out:
            yield f"({self.ruled_out} hidden by the rules of the intent.)"
        if self.credentials:
            yield f"({self.credentials} hidden: credentials.)"

    def _keeps_back(self, absolute: str, *, is_folder: bool) -> bool:
        below = self._below(absolute) if self._rules.names else ""
        if below and self._rules.keep_back(below, is_folder=is_folder):
            return True
        return _is_linked_to_ignored(absolute, self._rules, self._links, self._below)

    def _covers(self, absolute: str) -> bool:
        below = self._below(absolute) if self._rules.names else ""
        return bool(below) and self._rules.cover(below, is_folder=os.path.isdir(absolute))

    def _below(self, absolute: str) -> str:
        within = f"{self._root}/" if self._root.name else "/"
        return absolute.removeprefix(within) if absolute.startswith(within) else ""


def _is_linked_to_ignored(
    path: str, rules: IgnoreRules, links: HardLinks, below: Callable[[str], str]
) -> bool:
    """Whether a hard link gives the file another name that is kept from the agent, or might."""
    if not rules.names:
        return False
    try:
        return any(rules.cover(below(name), is_folder=False) for name in links.names_of(path))
    except TooManyEntries:
        return True


def _never(path: str) -> bool:
    return False
