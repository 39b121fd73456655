"""Whether pasted text is the path of a picture, in any of the ways that terminals write paths.

A file that is dragged into a terminal arrives as pasted text: as it is, in quotes, with a
backslash before each blank, or as a URI.
"""

import os
import shlex
from urllib.parse import unquote, urlsplit

LONGEST = 8192
_KINDS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def picture_paths(text: str, home: str) -> list[str]:
    """What it may be the path of, the likeliest first; nothing if it is no path of a picture."""
    text = text.strip()
    if not text or len(text) > LONGEST or not text.isprintable():
        return []
    if text.startswith("file:"):
        found = _in_uri(text)
    else:
        found = list(dict.fromkeys([text, *_in_shell_words(text)]))
    paths = (_at_home(path, home) for path in found)
    return [path for path in paths if path.startswith("/") and path.lower().endswith(_KINDS)]


def _in_uri(text: str) -> list[str]:
    try:
        uri = urlsplit(text)
    except ValueError:
        return []
    return [unquote(uri.path)] if uri.netloc in ("", "localhost", os.uname().nodename) else []


def _in_shell_words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation mark that belongs to the name
        return []
    return words if len(words) == 1 else []


def _at_home(path: str, home: str) -> str:
    return os.path.join(home, path.removeprefix("~/")) if path.startswith("~/") else path
