"""The files that a shell's pattern matches, as far as that can be found out quickly."""

import os
import re
from fnmatch import translate

MOST_ENTRIES = 5_000
MOST_OF_A_LINE = 60_000
PRICE_OF_A_FOLDER = 4
"""Opening one takes as long as reading so many entries."""
MOST_PARTS = 32
LONGEST = 1024
_MAGIC = re.compile(r"[*?\[]")
_LITERAL = re.compile(r"\[([*?\[{])\]")


class Looks:
    """How many entries of folders may still be looked at for one line."""

    def __init__(self, most: int = MOST_OF_A_LINE) -> None:
        self.left = most

    def take(self, count: int = 1) -> bool:
        """False once there are none left."""
        self.left -= count
        return self.left >= 0


def expanded(pattern: str, looks: Looks) -> list[str] | None:
    """The matches of an absolute pattern, or what it stands for itself if it has none and
    holds no pattern; None if there is too much to look through."""
    parts = pattern.split("/")
    if looks.left < 0 or len(parts) > MOST_PARTS or len(pattern) > LONGEST:
        return None
    found, looked_at = ["/"], 0
    for part in filter(None, parts):
        plain = _LITERAL.sub(r"\1", part)
        if not _MAGIC.search(_LITERAL.sub("", part)):
            found = [os.path.join(folder, plain) for folder in found]
            continue
        matches = re.compile(translate(part.replace("[^", "[!"))).match
        below = list[str]()
        for folder in found:
            names = _names(folder)
            looked_at += len(names)
            if not looks.take(len(names) + PRICE_OF_A_FOLDER) or looked_at > MOST_ENTRIES:
                return None
            hidden = part.startswith(".")
            below += [
                os.path.join(folder, name)
                for name in names
                if matches(name) and (hidden or not name.startswith("."))
            ]
        found = below
    return (
        found if not _MAGIC.search(pattern) else [path for path in found if os.path.lexists(path)]
    )


def _names(folder: str) -> list[str]:
    names = list[str]()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    break
    except OSError:
        return []
    return names
