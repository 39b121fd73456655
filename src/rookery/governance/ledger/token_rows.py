"""Program texts as rows of tokens, for languages nobody here has a grammar for.

A quoted text is one token, so that blanks in it count. No part of the expressions can go back on
what it has taken: the time grows with the text and no faster.
"""

import re
from functools import cache

from msgspec import Struct

_BLOCK = r"/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
_SLASHES = r"//[^\n]*+"
_HASH = r"(?<!\S)#[^\n]*+"
_DASHES = r"--[^\n]*+"
_SEMICOLON = r";[^\n]*+"
_HTML = r"<!--(?:[^-]|-(?!->))*+(?:-->)?"

_TEXTS = (
    r'"(?:\\.|[^"\\\n])*+"?',
    r"'(?:\\.|[^'\\\n])*+'?",
    r"`(?:\\.|[^`\\])*+`?",
)
_INDENT = r"\n[ \t]*+(?=\S)"


class Language(Struct, frozen=True):
    """What its comments look like, and whether the beginning of a line means something."""

    comments: tuple[str, ...] = ()
    indented: bool = False


_C = Language((_BLOCK, _SLASHES))
_SCRIPT = Language((_HASH,))
_FAMILIES: tuple[tuple[Language, str], ...] = (
    (_C, ".c .h .cc .cpp .cxx .hpp .hh .cs .java .js .jsx .mjs .cjs .ts .tsx .go .rs .swift .kt"),
    (_C, ".kts .scala .dart .m .mm .proto .groovy .zig .sol .glsl .scss .less .v .sv"),
    (Language((_BLOCK,)), ".css"),
    (Language((_BLOCK, _SLASHES, _HASH)), ".php"),
    (_SCRIPT, ".sh .bash .zsh .fish .rb .pl .pm .r .jl .ex .exs .tcl .awk"),
    (Language((_HASH,), indented=True), ".nim .coffee"),
    (Language((_DASHES, _BLOCK)), ".sql"),
    (Language((_DASHES,)), ".lua .adb .ads .vhd .vhdl"),
    (Language((_DASHES,), indented=True), ".hs .elm"),
    (Language((_BLOCK, _SLASHES), indented=True), ".fs .sass .styl .pug"),
    (Language((_SEMICOLON,)), ".clj .cljs .lisp .el .scm .rkt .asm .s"),
    (Language((_HTML,)), ".vue .svelte"),
)
LANGUAGES = {suffix: language for language, names in _FAMILIES for suffix in names.split()}


def tokens(language: Language, text: str) -> list[str]:
    """All tokens, comments among them; blanks in a comment do not count."""
    return [
        " ".join(found[0].split()) if found.lastgroup == "comment" else found[0]
        for found in _expression(language).finditer(text)
    ]


def code_tokens(language: Language, text: str) -> list[str]:
    """The tokens that are no comments."""
    found = _expression(language).finditer(text)
    return [each[0] for each in found if each.lastgroup != "comment"]


@cache
def _expression(language: Language) -> re.Pattern[str]:
    comment = "|".join(language.comments) or r"(?!)"
    parts = [f"(?P<comment>{comment})", *_TEXTS, *([_INDENT] if language.indented else [])]
    return re.compile("|".join([*parts, r"\w++", r"\S"]), re.DOTALL)
