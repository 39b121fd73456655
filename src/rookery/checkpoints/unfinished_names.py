"""The names of files that are only half written."""

import re
import secrets

_EDIT = re.compile(r"\.~[0-9a-f]{16}-[0-9a-f]{8}\.tmp")
_RESTORE = re.compile(r"\.~undo-[0-9a-f]{16}\.tmp")


def name_for_unfinished() -> str:
    """A name for what a restore is writing; one that stays behind is cleared away."""
    return f".~undo-{secrets.token_hex(8)}.tmp"


def is_unfinished_edit(name: str) -> bool:
    return bool(_EDIT.fullmatch(name))


def is_unfinished_restore(name: str) -> bool:
    return bool(_RESTORE.fullmatch(name))
