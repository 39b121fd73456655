"""The words and files of a command, from the nodes of the grammar's tree.

For a text that no grammar makes sense of there are the crude functions. They find too much rather
than too little: what they find is only ever asked about or denied.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rookery.commands.words import ParsedLine, Redirection, Script, SimpleCommand, Word, words
from rookery.commands.wrappers import SHELLS
from rookery.core.command_lines import program_name

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_CRUDE = 32
_RUNS_TEXT = {*SHELLS, "eval", "trap"}
_QUOTES = re.compile(r"['\"\\]")
_SEGMENTS = re.compile(r"[;&|\n\r(){}`]")
_WRITTEN = re.compile(r">[>&|]?[ \t]*([^\s;&|<>(){}`]+)")
_DESTROYERS_LISTED = """
    rm rmdir unlink shred git find fd xargs parallel dd chmod chown mv truncate rsync tee eval
    source mkfs wipefs
"""
_DESTROYERS = frozenset(_DESTROYERS_LISTED.split())
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.S
)
_NAMED_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f"}
_UNKNOWN_PIECES = {
    "simple_expansion",
    "expansion",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
    "brace_expression",
    "extglob_pattern",
}
_HERE = {"$PWD", "${PWD}"}
_FROM_HERE = re.compile(r'"?\$(?:PWD|\{PWD\})"?(?:/.*)?"?', re.S)
_MARK = "\x1f"
_FOREIGN = re.compile(r"[^\x00-\x1e\x20-\x7f]")
"""The parser's C code looks characters up in a table that ends long before these do, and has
crashed on them: it is given their numbers instead."""
_SPELLED_OUT = re.compile(f"{_MARK}([0-9a-f]+){_MARK}")


def words_of(command: "Node", home: str) -> Iterator[Word]:
    """The words of a command. Pieces without a gap between them are one word to the shell,
    whatever the grammar takes them for."""
    parts: list[Node] = []
    for child in command.children:
        if child.type in {"variable_assignment", "file_redirect", "herestring_redirect"} and (
            command.type == "command"
        ):
            continue
        if parts and parts[-1].end_byte != child.start_byte:
            yield _word(parts, home)
            parts = []
        parts.append(child)
    if parts:
        yield _word(parts, home)


def redirections_of(node: "Node", home: str) -> tuple[Redirection, ...]:
    found = []
    for redirect in _file_redirects(node):
        sign = next((c.type for c in redirect.children if not c.is_named), "")
        for target in redirect.children_by_field_name("destination")[:1]:
            word = _word([target], home)
            if sign.endswith("&") and re.fullmatch(r"[0-9]*-?", word.text):
                continue
            found.append(Redirection(word, writes=">" in sign))
    return tuple(found)


def _file_redirects(node: "Node") -> Iterator["Node"]:
    for child in node.children:
        if child.type == "file_redirect":
            yield child
        elif child.type == "heredoc_redirect":
            yield from _file_redirects(child)


def late_words(node: "Node", home: str) -> tuple[Word, ...]:
    """The words of a command that stand behind the file it writes to, which the grammar takes
    for more files."""
    return tuple(
        _word([late], home)
        for redirect in _file_redirects(node)
        for late in redirect.children_by_field_name("destination")[1:]
    )


def herestring(node: "Node", home: str) -> Script:
    """The word that a command gets to read."""
    parts = [child for child in node.children if child.type not in {"<<<", "file_descriptor"}]
    return _word(parts, home).script


def last_command(node: "Node") -> int:
    while node.children and node.type != "command":
        inside = [child for child in node.children if not child.type.endswith("redirect")]
        if not inside:
            break
        node = inside[-1]
    return node.id


def _word(parts: list["Node"], home: str) -> Word:
    text, pattern, known, globs, literal = "", "", True, False, ""
    waiting = list(reversed(parts))
    here = bool(home) and _starts_here(parts)
    while waiting:
        node = waiting.pop()
        if node.type in {"concatenation", "command_name"}:
            waiting.extend(reversed(node.children))
        elif node.type in _UNKNOWN_PIECES:
            said = text_of(node)
            stands_for = home if said in {"$HOME", "${HOME}"} else ""
            stands_for = "." if here and not text and said in _HERE else stands_for
            text += stands_for or said
            pattern += stands_for or said
            literal += stands_for
            known = known and bool(stands_for)
        elif node.type == "translated_string":
            known = False
            waiting.extend(child for child in node.children if child.type == "string")
        elif node.type == "string":
            for piece, sure in _inside_quotes(node, home, here and not text):
                text += piece
                pattern += _as_literal(piece)
                literal += piece if sure else ""
                known = known and sure
        elif node.type == "raw_string":
            quoted = text_of(node)[1:-1]
            text += quoted
            pattern += _as_literal(quoted)
            literal += quoted
        elif node.type == "ansi_c_string":
            quoted = without_escapes(text_of(node)[2:-1])
            text += quoted
            pattern += _as_literal(quoted)
            literal += quoted
        else:
            for piece, bare in _bare(text_of(node)):
                text += piece
                pattern += piece if bare else _as_literal(piece)
                literal += piece
                globs = globs or (bare and piece in "*?[{")
    if text.startswith("~") and parts[0].type in {"word", "concatenation"}:
        text, pattern, known = _at_home(text, pattern, home, known)
    if not known:
        written = "".join(text_of(part) for part in parts)
        return Word(written, known=False, unquoted=text, literal=literal)
    return Word(text, known=not globs, pattern=pattern) if globs else Word(text)


def _starts_here(parts: list["Node"]) -> bool:
    """Whether the folder it is in is the whole beginning of a path."""
    first = text_of(parts[0])
    return "PWD" in first and bool(_FROM_HERE.fullmatch("".join(map(text_of, parts))))


def _inside_quotes(node: "Node", home: str, here: bool) -> Iterator[tuple[str, bool]]:
    """The literal parts of a double-quoted string, and those that are found out only later."""
    raw, start = node.text or b"", node.start_byte
    position = start + 1
    for child in node.children:
        if child.type in _UNKNOWN_PIECES:
            yield _unquoted(raw[position - start : child.start_byte - start]), True
            said = text_of(child)
            if home and said in {"$HOME", "${HOME}"}:
                yield home, True
            elif here and child.start_byte == start + 1 and said in _HERE:
                yield ".", True
            else:
                yield said, False
            position = child.end_byte
    yield _unquoted(raw[position - start : -1]), True


def _unquoted(raw: bytes) -> str:
    return re.sub(r"\\([$`\"\\\n])", r"\1", _decoded(raw))


def _bare(said: str) -> Iterator[tuple[str, bool]]:
    """Characters outside quotes; those after a backslash are meant as they are."""
    escaped = False
    for character in said:
        if character == "\\" and not escaped:
            escaped = True
            continue
        yield character, not escaped
        escaped = False


def _as_literal(text: str) -> str:
    return re.sub(r"([*?\[{])", r"[\1]", text)


def _at_home(text: str, pattern: str, home: str, known: bool) -> tuple[str, str, bool]:
    if home and (text == "~" or text.startswith("~/")):
        return home + text[1:], home + pattern[1:], known
    return text, pattern, False


def text_of(node: "Node") -> str:
    return _decoded(node.text or b"")


def for_the_parser(text: str) -> bytes:
    """What the parser is given instead of a text; `text_of` turns it back."""
    return _FOREIGN.sub(_spelled_out, text).encode()


def _spelled_out(foreign: re.Match[str]) -> str:
    return f"{_MARK}{ord(foreign[0]):x}{_MARK}"


def _decoded(raw: bytes) -> str:
    return _SPELLED_OUT.sub(lambda found: chr(int(found[1], 16)), raw.decode())


def unread_line(text: str, doubt: str, home: str) -> ParsedLine:
    """A text that is not read by any grammar. What in it may destroy something is a danger, for
    nothing is known of what it would be done to."""
    commands = (*crude_commands(text, home), *crude_redirections(text, home))
    named = {program_name(word.text) for one in commands for word in one.words}
    dangers = sorted(f"{doubt}, and names {name}" for name in named & (_DESTROYERS | SHELLS))
    if any(one.redirections for one in commands):
        dangers.append(f"{doubt}, and writes files")
    return ParsedLine(commands, (doubt,), dangers=tuple(dangers), redefines=True)


def crude_commands(text: str, home: str) -> Iterator[SimpleCommand]:
    """Whatever stands between the signs of the shell, also behind a shell."""
    for segment in _SEGMENTS.split(_QUOTES.sub("", text)):
        said = re.findall(r"[^\s<>]+", segment)
        if not said:
            continue
        yield SimpleCommand(tuple(_crude_word(one, home) for one in said))
        if "$" in said[0]:
            yield SimpleCommand(words(re.findall(r"[^\s$<>]+", segment)))
        if "," in said[0]:
            # the braces around it have been taken for the end of a command
            parts = said[0].split(",")[:MOST_CRUDE]
            for place in range(len(parts)):
                yield SimpleCommand(words([*parts[place:], *said[1:]]))
        for place, word in enumerate(said[:MOST_CRUDE]):
            if program_name(word) in _RUNS_TEXT:
                rest = said[place + 1 : place + 1 + MOST_CRUDE]
                options = (at for at, one in enumerate(rest) if not one.startswith("-"))
                inner = rest[next(options, len(rest)) :]
                yield SimpleCommand(tuple(_crude_word(one, home) for one in inner))


def crude_redirections(text: str, home: str) -> Iterator[SimpleCommand]:
    for path in dict.fromkeys(_WRITTEN.findall(_QUOTES.sub("", text))):
        if not re.fullmatch(r"[0-9]*-?", path):
            yield SimpleCommand((), (Redirection(_crude_word(path, home), writes=True),))


def without_escapes(text: str) -> str:
    """With what `$'...'` stands for put in, as if it were everywhere."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    if digits := escape[1] or escape[2] or escape[3]:
        return chr(min(int(digits, 16), 0x10FFFF))
    if escape[4]:
        return chr(int(escape[4], 8) & 0xFF)
    if escape[5]:
        return chr(ord(escape[5]) & 0x1F)
    return _NAMED_ESCAPES.get(escape[6], escape[6])


def _crude_word(said: str, home: str) -> Word:
    if home and (said == "~" or said.startswith("~/")):
        said = home + said[1:]
    if "$" in said or said.startswith("~"):
        return Word(said, known=False)
    if "*" in said or "?" in said or ("[" in said and "]" in said):
        return Word(said, known=False, pattern=said)
    return Word(said)
