"""Which hooks of a project the user has trusted, stored in a file outside the workspace.

Trust covers the whole definition and the content of every workspace file that the command names, so
a changed script needs new approval. Files that those load in turn are not covered unless the
command names them too.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import file_digest as opened_digest
from itertools import chain
from pathlib import Path
from posixpath import basename, expanduser, isabs, join, normpath, relpath

import msgspec
from msgspec import Struct

from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.first_use import prepared
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
"""Most folders of a command in which its other words are looked up."""
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
"""Files whose commands a program runs."""
_ON_FAILURE_TEXT = {
    OnFailure.UNSET: "warn",
    OnFailure.WARN: "warn, also without an answer",
    OnFailure.BLOCK: "block",
}
"""UNSET keeps the value from before the two were separate, so that trusted hooks stay trusted."""


class Covered(Struct, frozen=True):
    """What trust covers: the definition, and workspace paths with content hashes."""

    definition: dict[str, str]
    files: dict[str, str]


class _Accepted(Struct, frozen=True):
    """A trusted hook: its identity and what was covered."""

    file: str
    event: str
    name: str
    definition: dict[str, str]
    files: dict[str, str]

    @property
    def what(self) -> Covered:
        return Covered(self.definition, self.files)

    def is_of(self, known: KnownHook) -> bool:
        mine = (self.file, self.event, self.name)
        return mine == (known.file, str(known.hook.event), known.hook.name)


class _TrustFile(Struct, frozen=True):
    accepted: list[_Accepted]
    version: int = 1


class HookTrust:
    """The trusted hooks of a workspace. Without `workspace_trusted` none of its hooks run. The
    file may be used by several processes at once."""

    def __init__(self, file: Path, workspace: Path, *, workspace_trusted: bool) -> None:
        self._file = file
        self._workspace = workspace
        self._workspace_trusted = workspace_trusted

    @property
    def problem(self) -> str:
        """Why the trust file cannot be used, as a sentence; empty if it can."""
        try:
            self._read()
        except StorageError as error:
            return str(error)
        return ""

    def status(self, known: KnownHook) -> TrustStatus:
        if known.source is HookSource.MANAGED:
            return TrustStatus.MANAGED
        if not known.source.is_of_project:
            return TrustStatus.TRUSTED
        if self.accepts(known):
            return TrustStatus.TRUSTED if self._workspace_trusted else TrustStatus.UNTRUSTED
        seen = any(each.is_of(known) for each in self._accepted_hooks())
        return TrustStatus.MODIFIED if seen else TrustStatus.UNTRUSTED

    def accepts(self, known: KnownHook) -> bool:
        """Whether the hook as it is now is trusted, regardless of trust in the folder."""
        if not known.source.is_of_project:
            return True
        now = self.covered(known)
        return any(each.what == now for each in self._accepted_hooks())

    def why_not(self, known: KnownHook) -> str:
        """Why it must not run, for the user; empty if it may. Its files are checked each time."""
        status = self.status(known)
        if status.may_run:
            return ""
        if not self._workspace_trusted:
            return "the folder is not trusted"
        if status is TrustStatus.MODIFIED:
            changes = ", ".join(self.difference(known, self.covered(known)))[:LONGEST_CHANGES]
            return f"it changed since you trusted it ({changes})"
        return "you have not trusted it yet"

    def difference(self, known: KnownHook, now: Covered) -> tuple[str, ...]:
        """What changed since it was trusted; everything if it never was."""
        before = [each.what for each in self._accepted_hooks() if each.is_of(known)]
        return differences(before[-1] if before else None, now)

    def covered(self, known: KnownHook) -> Covered:
        return covered(known.hook, dict(self._files(known)))

    def accept(self, known: KnownHook, what: Covered, among: Iterable[KnownHook] = ()) -> None:
        """Trust what was reviewed and drop the previous version, unless that is now another hook
        in `among`. Raises `StorageError`."""
        present = [self.covered(each) for each in among]
        event, name = str(known.hook.event), known.hook.name
        new = _Accepted(known.file, event, name, what.definition, what.files)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file_lock(self._file.with_name(f"{self._file.name}.lock")):
                kept = [
                    each
                    for each in self._read()
                    if each.what != what and (not each.is_of(known) or each.what in present)
                ]
                self._write([*kept, new])
        except OSError as error:
            raise StorageError(f"{self._file} could not be written ({error.strerror}).") from error

    def _files(self, known: KnownHook) -> Iterator[tuple[str, str]]:
        spellings = dict.fromkeys((str(self._workspace), str(self._workspace.resolve())))
        for root in spellings:
            named = named_paths(known.hook, root)
            folders = [path for path in named if (self._workspace / path).is_dir()]
            # a script may be named relative to a folder that the command changes to
            inside = (named_paths(known.hook, root, at) for at in folders[:MOST_FOLDERS])
            for path in dict.fromkeys((*named, *chain.from_iterable(inside))):
                if digest := file_digest(self._workspace / path):
                    yield path, digest

    def _accepted_hooks(self) -> list[_Accepted]:
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
            info = os.fstat(handle)
            if info.st_uid != os.geteuid():
                raise self._unusable("it is not your file")
            if info.st_mode & 0o022:
                raise self._unusable("others can write it")
            data = opened.read(LARGEST)
        try:
            return msgspec.convert(json.loads(data), prepared(_TrustFile)).accepted
        except (ValueError, RecursionError) as error:
            raise self._unusable("it is damaged") from error

    def _unusable(self, why: str) -> StorageError:
        return StorageError(
            f"{self._file} cannot be used ({why}), so no hook of the project is "
            "trusted. Move it away and trust them again."
        )

    def _write(self, accepted: list[_Accepted]) -> None:
        value = msgspec.to_builtins(_TrustFile(accepted))
        put(self._file, [json.dumps(value, indent=1).encode()])


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content; empty if there is no file."""
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
        "on_failure": _ON_FAILURE_TEXT[hook.on_failure],
        "dialect": str(hook.dialect),
        "async": _yes_or_empty(hook.background),
        "sequential": _yes_or_empty(hook.sequential),
    }
    return Covered(definition, dict(sorted(files.items())))


def named_paths(hook: HookCommand, root: str, folder: str = "") -> tuple[str, ...]:
    """Workspace paths, existing or not, that the command may refer to if it runs in `folder`."""
    return paths_in(_words(hook), root, folder)


def paths_in(words: Iterable[str], root: str, folder: str = "") -> tuple[str, ...]:
    """Like `named_paths`, for the words of any command line."""
    readings = (text for word in words for text in _candidates(word))
    found = (_relative(plain, root, folder) for text in readings for plain in _expand(text, root))
    return tuple(dict.fromkeys(path for path in found if path))


def differences(before: Covered | None, now: Covered) -> tuple[str, ...]:
    """What changed since it was trusted, or everything if it never was; for display."""
    if before is None:
        defined = [f"{key}: {value}" for key, value in now.definition.items() if value]
        return (*defined, *(f"file {path} (sha256 {sha[:16]})" for path, sha in now.files.items()))
    was, files_were, files_are = before.definition, before.files, now.files
    return (
        *(
            f"{key}: {was.get(key) or 'nothing'} -> {value or 'nothing'}"
            for key, value in now.definition.items()
            if was.get(key, "") != value
        ),
        *(
            f"file {path}: {_file_change(files_were.get(path), files_are.get(path))}"
            for path in sorted({*files_were, *files_are})
            if files_were.get(path) != files_are.get(path)
        ),
    )


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


def _candidates(word: str) -> Iterator[str]:
    """What a word may refer to: itself, its part after `=`, the words of a script in it, and
    files the program reads implicitly."""
    yield word
    yield from IMPLIED.get(basename(word), ())
    if "=" in word:
        yield word.partition("=")[2]
    if _LOOSE.search(word):
        for part in filter(None, _LOOSE.split(word)):
            yield part
            yield from IMPLIED.get(basename(part), ())


def _expand(text: str, root: str) -> Iterator[str]:
    """Expand `~` and known variables. Also yields the rest after unknown ones, such as the path
    in `$(git rev-parse --show-toplevel)/tools/scan.sh`."""
    known = _VARIABLE.sub(lambda found: _value(found, root), text)
    yield expanduser(known)
    if rest := _VARIABLE.sub("", text).lstrip("/"):
        yield rest


def _relative(plain: str, root: str, folder: str) -> str:
    """The path relative to the workspace; empty if it is not inside."""
    if not plain or len(plain) > LONGEST_PATH or "\0" in plain:
        return ""
    path = normpath(plain if isabs(plain) else join(root, folder, plain))
    return relpath(path, root) if path.startswith(f"{root.rstrip('/')}/") else ""


def _value(found: "re.Match[str]", root: str) -> str:
    name = found[1] or found[2]
    if name == "HOME":
        return expanduser("~")
    return root if name in (*PROJECT_VARIABLES, "PWD") else found[0]


def _yes_or_empty(yes: bool) -> str:
    return "yes" if yes else ""


def _file_change(before: str | None, now: str | None) -> str:
    if before is None:
        return "new"
    return "gone" if now is None else f"changed ({before[:12]} -> {now[:12]})"
