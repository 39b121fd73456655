"""Which files a command may show by git: it prints what lies in no folder any more, too."""

import os
from collections.abc import Iterator
from pathlib import Path

from rookery.commands.git_contents import Shown, other_repository, shown_by_git
from rookery.core.command_lines import Judgement
from rookery.governance.ledger.git_history import GitFailed, history_of
from rookery.platform.git.git_index import GitIndexes

SECONDS = 3.0


class CannotTell(Exception):
    """Git may show files that nobody can list beforehand."""


def shown_files(judged: Judgement, workspace: Path, cwd: str) -> Iterator[str]:
    """Absolute paths, those that are tracked now before those of old commits. Raises
    `CannotTell`."""
    shown = max(map(shown_by_git, judged.commands), default=Shown.NOTHING)
    if shown is Shown.NOTHING:
        return
    if judged.redefines or any(map(other_repository, judged.commands)):
        raise CannotTell("git may use another repository, so what it prints is not known")
    named = [os.path.normpath(workspace / each.path) for each in judged.targets]
    folders = {os.path.normpath(workspace / cwd), str(workspace)}
    yield from _words(judged, folders)
    for files in (_tracked, _committed):
        for top in _tops({*folders, *named}):
            for path in files(top):
                if shown is Shown.ANYTHING or _is_below(path, named):
                    yield path


def _words(judged: Judgement, folders: set[str]) -> Iterator[str]:
    """Words of a command that is not understood may be files it reads, tracked or not."""
    for said in judged.commands:
        if shown_by_git(said) is Shown.ANYTHING:
            for word in said[2:]:
                for text in (word, word[2:], word.partition("=")[2]):
                    yield from (os.path.normpath(os.path.join(each, text)) for each in folders)


def _tops(places: set[str]) -> list[Path]:
    """The folders of the repositories in which these places lie."""
    found = (_top(Path(place)) for place in sorted(places))
    return list(dict.fromkeys(top for top in found if top))


def _top(place: Path) -> Path | None:
    return next((each for each in (place, *place.parents) if (each / ".git").exists()), None)


def _tracked(top: Path) -> Iterator[str]:
    for path in GitIndexes(str(top)).blobs_in(""):
        yield os.path.join(top, os.fsdecode(path))


def _committed(top: Path) -> Iterator[str]:
    history = history_of(top)
    if history is None:
        return  # without git, git prints nothing
    try:
        paths = history.paths(SECONDS)
    except GitFailed as error:
        raise CannotTell(
            f"git could print any file of old commits, and these cannot be listed: {error}"
        ) from error
    yield from (os.path.join(top, path) for path in paths)


def _is_below(path: str, tops: list[str]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)
