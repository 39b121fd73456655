"""What is said to the user of checkpoints that cannot be made or restored."""

import os
from collections.abc import Sequence
from pathlib import Path

from rookery.checkpoints.file_restore import PutBack
from rookery.core.facts import Effect
from rookery.platform.paths import visible

_NOT_WHOLE = ("Desktop", "Documents", "Downloads")
_NAMED_FAILURES = 3
_NAMED = 20


def refusal(root: Path) -> str:
    """Why a folder is too much to be kept: people have their whole lives in it."""
    home = Path(os.path.expanduser("~")).resolve()
    if root == home or root in home.parents:
        return f"{root} is the home folder or holds it; work in a folder inside"
    if root.parent == home and root.name in _NOT_WHOLE:
        return f"{root} holds more than one project; work in a folder inside"
    return ""


def presentable(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """With names that can be shown and written down, whatever is in them."""
    return tuple(Effect(visible(e.path), e.before, e.after) for e in effects)


def failures(put: PutBack) -> str:
    if not put.failed:
        return ""
    named = _listed([f"{visible(path)}: {why}" for path, why in put.failed], _NAMED_FAILURES)
    return f"These were not put back ({named}); restore again once that is mended."


def kept_aside(put: PutBack) -> str:
    if not put.aside:
        return ""
    named = _listed([f"{visible(path)} to {visible(where)}" for path, where in put.aside], _NAMED)
    return f"No checkpoint holds what was there, so it was moved: {named}."


def never_saved(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    named = _listed([visible(path) for path in paths], _NAMED)
    return f"These could not be kept, being too large or no files, and stay as they are: {named}."


def not_kept(secrets: Sequence[str]) -> str:
    if not secrets:
        return ""
    named = _listed([visible(path) for path in secrets], _NAMED)
    return f"Checkpoints do not store ignored files that may hold secrets: {named}."


def _listed(what: Sequence[str], most: int) -> str:
    more = len(what) - most
    return "; ".join([*what[:most], *([f"and {more} more"] if more > 0 else [])])


def said(error: Exception) -> str:
    """What an error says, in the middle of a sentence."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text[:1].lower() + text[1:].rstrip(".")
