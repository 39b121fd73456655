"""Names of files as rules compare them.

Some file systems take names for the same that differ in case, in composition, or in dots and
spaces at the end, or take what follows a colon for a part of the file. A rule that tells such
names apart can be got around on them; one that does not is at worst too strict elsewhere.
"""

import unicodedata
from functools import lru_cache


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """A name that is the same for all names some file system takes for one."""
    bare = name.partition(":")[0].rstrip(" .") or name
    return caseless(bare)


def caseless(text: str) -> str:
    """Without regard to case and composition."""
    composed = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", composed)


def folded_names(path: str) -> tuple[str, ...]:
    """The names in a path, from the outermost."""
    return tuple(folded(name) for name in path.split("/") if name not in ("", "."))
