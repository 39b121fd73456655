"""Extracts words and redirections from nodes of the syntax tree.

The `crude_` functions search text that cannot be parsed. They find too much rather than too little,
since their results are only used to ask or to deny.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rookery.commands.words import ParsedLine, Redirection, Script, SimpleCommand, Word, words
from rookery.commands.wrappers import SHELLS
from rookery.engine.ports.actions import program_name
from rookery.first_use import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_CRUDE = 32
_RUNS_TEXT = {*SHELLS, "eval", "trap"}
_QUOTES = lazy_pattern(r"['\"\\]")
_SEGMENTS = lazy_pattern(r"[;&|\n\r(){}`]")
_WRITTEN = lazy_pattern(r">[>&|]?[ \t]*([^\s;&|<>(){}`]+)")
_DESTROYERS_LISTED = """
    rm rmdir unlink shred git find fd xargs parallel dd chmod chown mv truncate rsync tee eval
    source mkfs wipefs
"""
_DESTROYERS = frozenset(_DESTROYERS_LISTED.split())
_ESCAPE = lazy_pattern(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.S
)
_NAMED_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f"}
_UNKNOWN_PIECES = {
    *("simple_expansion", "expansion", "command_substitution", "process_substitution"),
    *("arithmetic_expansion", "brace_expression", "extglob_pattern"),
}
_HERE = {"$PWD", "${PWD}"}
_FROM_HERE = lazy_pattern(r'"?\$(?:PWD|\{PWD\})"?(?:/.*)?"?', re.S)
_MARK = "\x1f"
_NOT_ASCII = lazy_pattern(r"[^\x00-\x1e\x20-\x7f]")
"""Characters that have crashed the parser's C code, which looks them up in a table that is too
short. They are passed as their code points instead."""
_ENCODED = lazy_pattern(f"{_MARK}([0-9a-f]+){_MARK}")


def words_of(command: "Node", home: str) -> Iterator[Word]:
    """The words of a command. Adjacent nodes form one word, as they do for the shell."""
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


def words_after_redirect(node: "Node", home: str) -> tuple[Word, ...]:
    """Words after a redirection, which the grammar reports as further files of the redirection."""
    return tuple(
        _word([late], home)
        for redirect in _file_redirects(node)
        for late in redirect.children_by_field_name("destination")[1:]
    )


def herestring(node: "Node", home: str) -> Script:
    """The text of `<<<`."""
    parts = [child for child in node.children if child.type not in {"<<<", "file_descriptor"}]
    return _word(parts, home).script


def last_command(node: "Node") -> int:
    while node.children and node.type != "command":
        inside = [child for child in node.children if not child.type.endswith("redirect")]
        if not inside:
            break
        node = inside[-1]
    return node.id


def redirected_part(node: "Node") -> "Node":
    """What a redirection applies to: the grammar gives that of `b` in `a && b > file` to both."""
    part = node.children[0]
    while part.type == "list":
        part = part.children[-1]
    return part


def _word(parts: list["Node"], home: str) -> Word:
    text, pattern, known, globs, literal = "", "", True, False, ""
    waiting = list(reversed(parts))
    here = bool(home) and _starts_here(parts)
    while waiting:
        node = waiting.pop()
        if node.type in {"concatenation", "command_name"}:
            waiting.extend(reversed(node.children))
        elif node.type in _UNKNOWN_PIECES:
            source = text_of(node)
            stands_for = home if source in {"$HOME", "${HOME}"} else ""
            stands_for = "." if here and not text and source in _HERE else stands_for
            text += stands_for or source
            pattern += stands_for or source
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
            quoted = expand_escapes(text_of(node)[2:-1])
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
        text, pattern, known = _expand_home(text, pattern, home, known)
    if not known:
        source = "".join(text_of(part) for part in parts)
        return Word(source, known=False, unquoted=text, literal=literal)
    return Word(text, known=not globs, pattern=pattern) if globs else Word(text)


def _starts_here(parts: list["Node"]) -> bool:
    """Whether the word is `$PWD`, or a path that starts with it."""
    first = text_of(parts[0])
    return "PWD" in first and bool(_FROM_HERE.fullmatch("".join(map(text_of, parts))))


def _inside_quotes(node: "Node", home: str, here: bool) -> Iterator[tuple[str, bool]]:
    """The parts of a double-quoted string, each with whether its value is known."""
    raw, start = node.text or b"", node.start_byte
    position = start + 1
    for child in node.children:
        if child.type in _UNKNOWN_PIECES:
            yield _unquote(raw[position - start : child.start_byte - start]), True
            written = text_of(child)
            if home and written in {"$HOME", "${HOME}"}:
                yield home, True
            elif here and child.start_byte == start + 1 and written in _HERE:
                yield ".", True
            else:
                yield written, False
            position = child.end_byte
    yield _unquote(raw[position - start : -1]), True


def _unquote(raw: bytes) -> str:
    return re.sub(r"\\([$`\"\\\n])", r"\1", _decode(raw))


def _bare(text: str) -> Iterator[tuple[str, bool]]:
    """The characters of unquoted text, each with whether it is not escaped."""
    escaped = False
    for character in text:
        if character == "\\" and not escaped:
            escaped = True
            continue
        yield character, not escaped
        escaped = False


def _as_literal(text: str) -> str:
    return re.sub(r"([*?\[{])", r"[\1]", text)


def _expand_home(text: str, pattern: str, home: str, known: bool) -> tuple[str, str, bool]:
    if home and (text == "~" or text.startswith("~/")):
        return home + text[1:], home + pattern[1:], known
    return text, pattern, False


def text_of(node: "Node") -> str:
    return _decode(node.text or b"")


def encode_for_parser(text: str) -> bytes:
    """Encode a text for the parser; `text_of` decodes it."""
    return _NOT_ASCII.sub(_encode_character, text).encode()


def _encode_character(foreign: re.Match[str]) -> str:
    return f"{_MARK}{ord(foreign[0]):x}{_MARK}"


def _decode(raw: bytes) -> str:
    return _ENCODED.sub(lambda found: chr(int(found[1], 16)), raw.decode())


def unparsed_line(text: str, doubt: str, home: str) -> ParsedLine:
    """The result for a text that is not parsed. A destructive program in it is a danger, since
    its targets are unknown."""
    commands = (*crude_commands(text, home), *crude_redirections(text, home))
    named = {program_name(word.text) for one in commands for word in one.words}
    dangers = sorted(f"{doubt}, and names {name}" for name in named & (_DESTROYERS | SHELLS))
    if any(one.redirections for one in commands):
        dangers.append(f"{doubt}, and writes files")
    return ParsedLine(commands, (doubt,), dangers=tuple(dangers), redefines=True)


def crude_commands(text: str, home: str) -> Iterator[SimpleCommand]:
    """Everything between shell operators, and what follows the name of a shell."""
    for segment in _SEGMENTS.split(_QUOTES.sub("", text)):
        texts = re.findall(r"[^\s<>]+", segment)
        if not texts:
            continue
        yield SimpleCommand(tuple(_crude_word(one, home) for one in texts))
        if "$" in texts[0]:
            yield SimpleCommand(words(re.findall(r"[^\s$<>]+", segment)))
        if "," in texts[0]:
            # a brace expansion: the segments were split at its braces
            choices = texts[0].split(",")[:MOST_CRUDE]
            for place in range(len(choices)):
                yield SimpleCommand(words([*choices[place:], *texts[1:]]))
        for place, word in enumerate(texts[:MOST_CRUDE]):
            if program_name(word) in _RUNS_TEXT:
                rest = texts[place + 1 : place + 1 + MOST_CRUDE]
                options = (at for at, one in enumerate(rest) if not one.startswith("-"))
                inner = rest[next(options, len(rest)) :]
                yield SimpleCommand(tuple(_crude_word(one, home) for one in inner))


def crude_redirections(text: str, home: str) -> Iterator[SimpleCommand]:
    for path in dict.fromkeys(_WRITTEN.findall(_QUOTES.sub("", text))):
        if not re.fullmatch(r"[0-9]*-?", path):
            yield SimpleCommand((), (Redirection(_crude_word(path, home), writes=True),))


def expand_escapes(text: str) -> str:
    """Replace the escapes of `$'...'` everywhere in the text."""
    return _ESCAPE.sub(_unescape, text)


def _unescape(escape: re.Match[str]) -> str:
    if digits := escape[1] or escape[2] or escape[3]:
        return chr(min(int(digits, 16), 0x10FFFF))
    if escape[4]:
        return chr(int(escape[4], 8) & 0xFF)
    if escape[5]:
        return chr(ord(escape[5]) & 0x1F)
    return _NAMED_ESCAPES.get(escape[6], escape[6])


def _crude_word(text: str, home: str) -> Word:
    if home and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    if "$" in text or text.startswith("~"):
        return Word(text, known=False)
    if "*" in text or "?" in text or ("[" in text and "]" in text):
        return Word(text, known=False, pattern=text)
    return Word(text)
