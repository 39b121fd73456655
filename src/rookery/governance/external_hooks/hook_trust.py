"""Which hooks of a project the user has looked at, kept in a file outside of the workspace.

A hook is known by its content: the same command with another script behind it is another hook. What
counts is all of its definition and every file of the workspace that its command names, but not what
those files load in turn. Whoever wants that covered names it in the command.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import file_digest as opened_digest
from hashlib import sha256
from itertools import chain
from pathlib import Path
from posixpath import basename, expanduser, isabs, join, normpath, relpath
from typing import Any

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.governance.external_hooks.hook_config import HookCommand, OnFailure
from rookery.governance.external_hooks.hook_files import HookSource, KnownHook, TrustStatus
from rookery.platform.disk import put, regular_file
from rookery.platform.locks import file_lock

LARGEST = 4 * MIB
LONGEST_CHANGES = 500
UNREADABLE = "unreadable"
PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "ROOKERY_PROJECT_DIR")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:[:?-][^}]*)?\}|(\w+))")
_LOOSE = re.compile(r"[\s\"'`;&|<>(){}]+")
LONGEST_PATH = 4096
MOST_FOLDERS = 20
"""That a command names, in which its other words are looked for."""
_PACKAGE = ("package.json",)
IMPLIED: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun"), _PACKAGE),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile", "rakefile"),
    "composer": ("composer.json",),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "pre-commit": (".pre-commit-config.yaml",),
}
"""Files with the commands that a program runs."""
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


class _Accepted(Struct, frozen=True):
    """Which hook it was by name, and what was looked at."""

    file: str
    event: str
    name: str
    what: Covered

    def is_of(self, known: KnownHook) -> bool:
        mine = (self.file, self.event, self.name)
        return mine == (known.file, str(known.hook.event), known.hook.name)


class HookTrust:
    """`workspace_trusted` says whether the user trusts the folder at all: nothing of it runs
    before that. Several processes may use the file at once."""

    def __init__(self, file: Path, workspace: Path, *, workspace_trusted: bool) -> None:
        self._file = file
        self._workspace = workspace
        self._workspace_trusted = workspace_trusted

    @property
    def problem(self) -> str:
        """Why no hook of the project is trusted, in a sentence; usually nothing."""
        try:
            self._read()
        except StorageError as error:
            return str(error)
        return ""

    def status(self, known: KnownHook) -> TrustStatus:
        if known.source is HookSource.MANAGED:
            return TrustStatus.MANAGED
        if known.source is HookSource.USER:
            return TrustStatus.TRUSTED
        if self.accepts(known):
            return TrustStatus.TRUSTED if self._workspace_trusted else TrustStatus.UNTRUSTED
        seen = any(each.is_of(known) for each in self._believed())
        return TrustStatus.MODIFIED if seen else TrustStatus.UNTRUSTED

    def accepts(self, known: KnownHook) -> bool:
        """Whether it needs no looking at, whatever is thought of the folder."""
        if not known.source.is_of_project:
            return True
        now = self.covered(known)
        return any(each.what == now for each in self._believed())

    def why_not(self, known: KnownHook, status: TrustStatus) -> str:
        """Why it does not run, for whoever is told."""
        if not self._workspace_trusted:
            return "the folder is not trusted"
        if status is TrustStatus.MODIFIED:
            changes = ", ".join(self.difference(known, self.covered(known)))[:LONGEST_CHANGES]
            return f"it changed since you trusted it ({changes})"
        return "you have not trusted it yet"

    def difference(self, known: KnownHook, now: Covered) -> tuple[str, ...]:
        """What changed since it was trusted; all there is to look at if it never was."""
        before = [each.what for each in self._believed() if each.is_of(known)]
        return differences(before[-1] if before else None, now)

    def covered(self, known: KnownHook) -> Covered:
        """The hook as it is now."""
        return covered(known.hook, dict(self._files(known)))

    def accept(self, known: KnownHook, what: Covered, among: Iterable[KnownHook] = ()) -> None:
        """Trust what was looked at, and no longer what it was before, unless that is now another
        hook `among` those that there are. Raises `StorageError`."""
        still_there = [self.covered(each) for each in among]
        new = _Accepted(known.file, str(known.hook.event), known.hook.name, what)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file_lock(self._file.with_name(f"{self._file.name}.lock")):
                kept = [
                    each
                    for each in self._read()
                    if each.what != what and (not each.is_of(known) or each.what in still_there)
                ]
                self._write([*kept, new])
        except OSError as error:
            raise StorageError(f"{self._file} could not be written ({error.strerror}).") from error

    def _files(self, known: KnownHook) -> Iterator[tuple[str, str]]:
        spellings = dict.fromkeys((str(self._workspace), str(self._workspace.resolve())))
        for root in spellings:
            named = named_paths(known.hook, root)
            folders = [path for path in named if (self._workspace / path).is_dir()]
            # a script may be named from within a folder that the command goes to
            inside = (named_paths(known.hook, root, at) for at in folders[:MOST_FOLDERS])
            for path in dict.fromkeys((*named, *chain.from_iterable(inside))):
                if digest := file_digest(self._workspace / path):
                    yield path, digest

    def _believed(self) -> list[_Accepted]:
        with suppress(StorageError):
            return self._read()
        return []

    def _read(self) -> list[_Accepted]:
        try:
            handle = regular_file(Path(os.path.realpath(self._file)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        with open(handle, "rb") as opened:
            there = os.fstat(handle)
            if there.st_uid != os.geteuid():
                raise self._unusable("it is not your file")
            if there.st_mode & 0o022:
                raise self._unusable("others can write it")
            data = opened.read(LARGEST)
        try:
            return [_accepted(each) for each in json.loads(data)["accepted"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._unusable("it is damaged") from error

    def _unusable(self, why: str) -> StorageError:
        return StorageError(
            f"{self._file} cannot be used ({why}), so no hook of the project is "
            "trusted. Move it away and trust them again."
        )

    def _write(self, accepted: list[_Accepted]) -> None:
        said = {"version": 1, "accepted": [_said(each) for each in accepted]}
        put(self._file, [json.dumps(said, indent=1).encode()])


def file_digest(path: Path) -> str:
    """Of a file's content; empty if there is no file."""
    try:
        handle = regular_file(Path(os.path.realpath(path)))
    except PermissionError:
        return UNREADABLE
    except OSError:
        return ""
    with open(handle, "rb") as opened:
        return opened_digest(opened, "sha256").hexdigest()


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


def named_paths(hook: HookCommand, root: str, folder: str = "") -> tuple[str, ...]:
    """Every path inside of the workspace that a word of the command may mean if it runs in
    `folder`, relative to the workspace. Which of them are files only the disk knows."""
    return paths_in(_words(hook), root, folder)


def paths_in(words: Iterable[str], root: str, folder: str = "") -> tuple[str, ...]:
    """The same for the words of any program line."""
    readings = (text for word in words for text in _readings(word))
    found = (_inside(plain, root, folder) for text in readings for plain in _plain(text, root))
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
        raise ValueError("it has no hook definition") from error
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in pairs):
        raise ValueError("it has values that are not text")
    return Covered(tuple(definition.items()), tuple(sorted(files.items())))


def _accepted(said: Any) -> _Accepted:
    names = said["file"], said["event"], said["name"]
    if not all(isinstance(each, str) for each in names):
        raise ValueError("a name is not text")
    return _Accepted(*names, from_json(said))


def _said(accepted: _Accepted) -> dict[str, Any]:
    return {
        "file": accepted.file,
        "event": accepted.event,
        "name": accepted.name,
        "fingerprint": accepted.what.fingerprint,
        **to_json(accepted.what),
    }


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
    """A word as it is, what follows its `=`, the words of a script within it, and files that a
    program reads without their being named."""
    yield word
    yield from IMPLIED.get(basename(word), ())
    if "=" in word:
        yield word.partition("=")[2]
    if _LOOSE.search(word):
        for part in filter(None, _LOOSE.split(word)):
            yield part
            yield from IMPLIED.get(basename(part), ())


def _plain(text: str, root: str) -> Iterator[str]:
    """With variables and `~` as far as they are known, and what follows those that are not: the
    rest of `$(git rev-parse --show-toplevel)/tools/scan.sh` too is a path in the workspace."""
    known = _VARIABLE.sub(lambda found: _value(found, root), text)
    yield expanduser(known)
    if rest := _VARIABLE.sub("", text).lstrip("/"):
        yield rest


def _inside(plain: str, root: str, folder: str) -> str:
    """The path relative to the workspace; empty if it is none in there."""
    if not plain or len(plain) > LONGEST_PATH or "\0" in plain:
        return ""
    path = normpath(plain if isabs(plain) else join(root, folder, plain))
    return relpath(path, root) if path.startswith(f"{root.rstrip('/')}/") else ""


def _value(found: "re.Match[str]", root: str) -> str:
    name = found[1] or found[2]
    if name == "HOME":
        return expanduser("~")
    return root if name in (*PROJECT_VARIABLES, "PWD") else found[0]


def _word(yes: bool) -> str:
    return "yes" if yes else ""


def _what_became(before: str | None, now: str | None) -> str:
    if before is None:
        return "new"
    return "gone" if now is None else f"changed ({before[:12]} -> {now[:12]})"
