"""What somebody who trusts a hook has looked at: all of its definition that matters, and every
file of the workspace that its command names.

Not covered is what those files in turn load. Whoever wants that covered names it in the command.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from posixpath import isabs, normpath, relpath
from typing import Any

from msgspec import Struct

from rookery.governance.external_hooks.hook_config import HookCommand, OnFailure

PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "ROOKERY_PROJECT_DIR")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:[:?-][^}]*)?\}|(\w+))")
_LOOSE = re.compile(r"[\s\"'`;&|<>(){}]+")
LONGEST_PATH = 4096
_TOLD_ON_FAILURE = {
    OnFailure.UNSAID: "warn",
    OnFailure.WARN: "warn, also without an answer",
    OnFailure.BLOCK: "block",
}
"""The first is what it was before the two were told apart, so that what is trusted stays so."""


class Covered(Struct, frozen=True):
    """`files` are paths in the workspace with the hashes of their content."""

    definition: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]

    @property
    def fingerprint(self) -> str:
        whole = json.dumps([self.definition, self.files], ensure_ascii=True)
        return sha256(whole.encode("ascii")).hexdigest()


def covered(hook: HookCommand, files: Mapping[str, str]) -> Covered:
    definition = {
        "event": str(hook.event),
        "matcher": hook.matcher.text,
        "if": hook.condition,
        "command": hook.command,
        "args": "" if hook.args is None else json.dumps(hook.args),
        "env": json.dumps(hook.env) if hook.env else "",
        "timeout": f"{hook.timeout:g}",
        "on_failure": _TOLD_ON_FAILURE[hook.on_failure],
        "dialect": str(hook.dialect),
        "async": _word(hook.background),
        "sequential": _word(hook.sequential),
    }
    return Covered(tuple(definition.items()), tuple(sorted(files.items())))


def named_paths(hook: HookCommand, root: str) -> tuple[str, ...]:
    """Every path inside of the workspace that a word of the command may mean, relative to it.
    Which of them are files only the disk knows."""
    return paths_in(_words(hook), root)


def paths_in(words: Iterable[str], root: str) -> tuple[str, ...]:
    """The same for the words of any program line."""
    found = (_inside(text, root) for word in words for text in _readings(word))
    return tuple(dict.fromkeys(path for path in found if path))


def differences(before: Covered | None, now: Covered) -> tuple[str, ...]:
    """What is not as it was when it was trusted, or all of it if it never was; for a person."""
    if before is None:
        defined = [f"{key}: {said}" for key, said in now.definition if said]
        return (*defined, *(f"file {path} (sha256 {sha[:16]})" for path, sha in now.files))
    was, files_were = dict(before.definition), dict(before.files)
    files_are = dict(now.files)
    return (
        *(
            f"{key}: {was.get(key) or 'nothing'} -> {said or 'nothing'}"
            for key, said in now.definition
            if was.get(key, "") != said
        ),
        *(
            f"file {path}: {_what_became(files_were.get(path), files_are.get(path))}"
            for path in sorted({*files_were, *files_are})
            if files_were.get(path) != files_are.get(path)
        ),
    )


def to_json(what: Covered) -> dict[str, Any]:
    return {"definition": dict(what.definition), "files": dict(what.files)}


def from_json(said: Any) -> Covered:
    """Raises `ValueError` if it is nothing of ours."""
    try:
        definition, files = said["definition"], said["files"]
        pairs = [*definition.items(), *files.items()]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("it holds no definition") from error
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in pairs):
        raise ValueError("it holds something else than texts")
    return Covered(tuple(definition.items()), tuple(sorted(files.items())))


def _words(hook: HookCommand) -> Iterator[str]:
    values = [text for _, text in hook.env]
    if hook.args is not None:
        yield from (hook.command, *hook.args, *values)
        return
    try:
        lexer = shlex.shlex(hook.command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        yield from lexer
    except ValueError:
        yield from _LOOSE.split(hook.command)
    yield from values


def _readings(word: str) -> Iterator[str]:
    """A word as it is, what follows its `=`, and the words of a script within it."""
    yield word
    if "=" in word:
        yield word.partition("=")[2]
    if _LOOSE.search(word):
        yield from (part for part in _LOOSE.split(word) if part)


def _inside(text: str, root: str) -> str:
    """The path relative to the workspace; empty if it is none in there."""
    plain = _VARIABLE.sub(lambda found: _value(found, root), text)
    if not plain or len(plain) > LONGEST_PATH or "\0" in plain:
        return ""
    path = normpath(plain if isabs(plain) else f"{root}/{plain}")
    return relpath(path, root) if path.startswith(f"{root.rstrip('/')}/") else ""


def _value(found: "re.Match[str]", root: str) -> str:
    name = found[1] or found[2]
    return root if name in (*PROJECT_VARIABLES, "PWD") else found[0]


def _word(yes: bool) -> str:
    return "yes" if yes else ""


def _what_became(before: str | None, now: str | None) -> str:
    if before is None:
        return "new"
    return "gone" if now is None else f"changed ({before[:12]} -> {now[:12]})"
