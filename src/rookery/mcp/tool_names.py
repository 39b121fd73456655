"""One name for each tool of each server: `mcp--server--tool`.

Names are cut to what providers take. What is cut, or would be the name of another tool too,
ends in a hash of the whole, so that every name stands for exactly one tool and can be looked up.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

PREFIX = "mcp"
BETWEEN = "--"
LONGEST = 64
_HASH = 8

OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What a server may be called by whoever adds one: it stays itself wherever it is said."""
OWN_NAME_IN_WORDS = "1 to 64 letters a to z, digits, _ . and -, of which the first is no mark"

_BLANKS = re.compile(r"\s+")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]")
_HYPHENS = re.compile(r"-{2,}")


def tool_name(server: str, tool: str) -> str:
    """The name of a tool, if no other has the same."""
    whole = BETWEEN.join([PREFIX, sanitised(server), sanitised(tool)])
    return whole if len(whole) <= LONGEST else _marked(whole, server, tool)


def all_names(tools: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """A name for each pair of server and tool; those that would share one are told apart."""
    pairs = list(dict.fromkeys(tools))
    plain = [tool_name(*pair) for pair in pairs]
    alike = [folded(name) for name in plain]
    return {
        name if alike.count(folded(name)) == 1 else _marked(name, *pair): pair
        for name, pair in zip(plain, pairs, strict=True)
    }


def looked_up(name: str, known: Mapping[str, tuple[str, str]]) -> tuple[str, str] | None:
    """The server and the tool that a model means, however it writes hyphens and underscores."""
    if name in known:
        return known[name]
    return next((pair for each, pair in known.items() if folded(each) == folded(name)), None)


def same_name(wanted: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is meant: itself, or what reads the same once both are folded."""
    candidates = list(names)
    if wanted in candidates:
        return wanted
    alike = [name for name in candidates if folded(name) == folded(wanted)]
    return alike[0] if len(alike) == 1 else None


def sanitised(part: str) -> str:
    part = _HYPHENS.sub("-", _OTHERS.sub("", _BLANKS.sub("_", part.strip())))
    if not part:
        return "_unnamed"
    return part if part[0].isalpha() else f"_{part}"


def folded(name: str) -> str:
    """What two names have in common that differ only in hyphens and underscores."""
    return sanitised(name).replace("-", "_").replace("__", "_").strip("_").casefold()


def _marked(name: str, server: str, tool: str) -> str:
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{mark}"
