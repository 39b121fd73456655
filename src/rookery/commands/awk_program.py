"""What an awk program does besides printing: the files it writes, and the commands it runs.

Where a slash begins an expression and where it divides cannot always be told without the whole
grammar. What only prints is therefore known only if it holds under either reading.
"""

import re

from msgspec import Struct

LONGEST = 4096
_STRING = r'"(?:\\.|[^"\\\n])*"'
_TOKEN = re.compile(
    rf"""(?P<string>{_STRING})|(?P<word>[A-Za-z_]\w*)|(?P<number>[0-9][\w.]*)|(?P<gap>[ \t\n]+)"""
    r"""|(?P<or>\|\|)|(?P<append>>>)|(?P<least>>=)|(?P<sign>.)""",
    re.S,
)
_REGEX = re.compile(r"/(?:\\.|[^/\\\n\"\[])*/")
_BEFORE_REGEX = frozenset({"", "or", *"({,;!~&}"})
_FORBIDDEN_LISTED = """
    system getline close fflush ENVIRON PROCINFO ARGV ARGC SYMTAB FUNCTAB function func while do
"""
_FORBIDDEN = frozenset(_FORBIDDEN_LISTED.split())
_WORDS = re.compile(r"[A-Za-z_]\w*")
_LOOP = re.compile(r"\bfor\b(?!\s*\(\s*\w+\s+in\s+\w+\s*\))")
_SET = re.compile(rf"\b([A-Za-z_]\w*)\s*=\s*({_STRING})")
_TO_FILE = re.compile(rf"\bprintf?\b[^;{{}}\n]*?>>?\s*({_STRING}|[A-Za-z_]\w*)")
_TO_COMMAND = re.compile(rf"\|&?\s*({_STRING})")
_FROM_COMMAND = re.compile(rf"({_STRING})\s*\|&?\s*getline|\bsystem\s*\(\s*({_STRING})")


class AwkProgram(Struct, frozen=True):
    """`writes` are files and `runs` texts for a shell, as far as they are written into it."""

    writes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


def awk_program(text: str, variables: dict[str, str]) -> AwkProgram:
    """`variables` are those that the command line sets."""
    known = variables | {name: _unquoted(said) for name, said in _SET.findall(text[:LONGEST])}
    named = _TO_FILE.findall(text[:LONGEST])
    writes = [_unquoted(one) if one[0] == '"' else known.get(one, "") for one in named]
    commands = [one for pair in _FROM_COMMAND.findall(text[:LONGEST]) for one in pair]
    commands += _TO_COMMAND.findall(text[:LONGEST])
    return AwkProgram(tuple(filter(None, writes)), tuple(_unquoted(one) for one in commands if one))


def only_prints(text: str) -> bool:
    """Whether it comes to an end, and does nothing but print what it is given to read."""
    if len(text) > LONGEST or "@" in text or "\\\n" in text or "#" in text:
        return False
    if _FORBIDDEN & set(_WORDS.findall(text)) or _LOOP.search(text):
        return False
    if ">" not in text and "|" not in text.replace("||", ""):
        return "|||" not in text
    return _prints_to_nowhere_else(text)


def _prints_to_nowhere_else(text: str) -> bool:
    """Read token by token. A slash that may divide makes it uncertain, so it is left."""
    at, before, printing = 0, "", False
    while at < len(text):
        if text[at] == "/":
            found = _REGEX.match(text, at) if before in _BEFORE_REGEX else None
            if found is None:
                return False
            at, before = found.end(), "regex"
            continue
        token = _TOKEN.match(text, at)
        if token is None:
            return False
        at = token.end()
        kind, said = token.lastgroup, token[0]
        if kind == "gap":
            continue
        if said in {"print", "printf"}:
            printing = True
        elif said in {";", "}"}:
            printing = False
        elif kind == "append" or said in {"|", '"'} or (said in {">", ">="} and printing):
            return False
        before = said if kind == "sign" else kind or ""
    return True


def _unquoted(said: str) -> str:
    return re.sub(r"\\(.)", r"\1", said[1:-1])
