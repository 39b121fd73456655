"""Whether a change kept the meaning of a file or gave it another, found out from both texts.

Python is compared as a syntax tree; other languages as the row of their tokens. Whatever cannot
be understood counts as a new meaning.
"""

from enum import StrEnum
from posixpath import basename, splitext

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.governance.ledger.python_trees import (
    same_but_for_local_names,
    same_code,
    same_comments,
)
from rookery.governance.ledger.token_rows import LANGUAGES, Language, code_tokens, tokens

LARGEST = MIB
"""Characters of one side beyond which nothing is compared: it would take too long."""

_DOCUMENTS = {".md", ".rst", ".txt", ".adoc", ".tex", ".org", ".html", ".htm"}
_SETTINGS = {".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env", ".properties"}
_SETTINGS |= {".xml", ".lock", ".mk", ".cmake", ".gradle", ".tf", ".csv"}
_SETTINGS_NAMES = {"makefile", "dockerfile", "gnumakefile", "jenkinsfile", "cmakelists.txt"}
_PYTHON = {".py", ".pyi"}


class MutationClass(StrEnum):
    AST_REFACTOR = "AST_REFACTOR"
    INTENT_EVOLUTION = "INTENT_EVOLUTION"


class ChangeKind(StrEnum):
    FORMAT = "format"
    COMMENT = "comment"
    RENAME = "rename"
    MOVE = "move"
    CODE = "code"
    CREATE = "create"
    DELETE = "delete"
    UNPARSED = "unparsed"
    BINARY = "binary"
    DOCS = "docs"
    CONFIG = "config"


_KEEPS_MEANING = {ChangeKind.FORMAT, ChangeKind.COMMENT, ChangeKind.RENAME, ChangeKind.MOVE}


class ChangeClass(Struct, frozen=True):
    kind: ChangeKind

    @property
    def mutation_class(self) -> MutationClass:
        kept = self.kind in _KEEPS_MEANING
        return MutationClass.AST_REFACTOR if kept else MutationClass.INTENT_EVOLUTION


def change_class(
    path: str, before: bytes | None, after: bytes | None, *, moved: bool = False
) -> ChangeClass | None:
    """What a change of the file at that path was; None if there was none. A side is None where
    there was no file."""
    if before == after:
        return ChangeClass(ChangeKind.MOVE) if moved and before is not None else None
    if before is None:
        return ChangeClass(ChangeKind.CREATE)
    if after is None:
        return ChangeClass(ChangeKind.DELETE)
    return ChangeClass(_kind(path, before, after))


def _kind(path: str, before: bytes, after: bytes) -> ChangeKind:
    if b"\0" in before or b"\0" in after:
        return ChangeKind.BINARY
    try:
        old, new = before.decode("utf-8-sig"), after.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ChangeKind.BINARY
    suffix, name = splitext(path)[1].lower(), basename(path).lower()
    if suffix in _SETTINGS or name in _SETTINGS_NAMES or name.startswith(".env"):
        return ChangeKind.FORMAT if _lines(old) == _lines(new) else ChangeKind.CONFIG
    if suffix in _DOCUMENTS:
        return ChangeKind.FORMAT if _lines(old) == _lines(new) else ChangeKind.DOCS
    if max(len(old), len(new)) > LARGEST:
        return ChangeKind.UNPARSED
    if suffix in _PYTHON:
        return _python(old, new)
    return _other(LANGUAGES.get(suffix, Language()), old, new)


def _lines(text: str) -> list[str]:
    """Without what is at the ends of lines; what is at their beginning may mean something."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _python(old: str, new: str) -> ChangeKind:
    try:
        if same_code(old, new):
            return ChangeKind.FORMAT if same_comments(old, new) else ChangeKind.COMMENT
        return ChangeKind.RENAME if same_but_for_local_names(old, new) else ChangeKind.CODE
    except ValueError:
        return ChangeKind.UNPARSED


def _other(language: Language, old: str, new: str) -> ChangeKind:
    if tokens(language, old) == tokens(language, new):
        return ChangeKind.FORMAT
    if language.comments and code_tokens(language, old) == code_tokens(language, new):
        return ChangeKind.COMMENT
    return ChangeKind.CODE
