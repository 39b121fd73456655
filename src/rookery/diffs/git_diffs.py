"""Gets the diff to work on: from git, a patch file, standard input, or `gh`.

Git runs hardened: nothing that the repository configures is started. New files are added to a copy
of the index, by name only, so that they are in the diff too.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.diffs.unified import read_diff
from rookery.errors import SettingsError, StorageError
from rookery.platform.git_folders import repository_of
from rookery.platform.own_programs import (
    GIT_SECONDS,
    GitAnswer,
    ProgramTimeout,
    disabled_programs,
    read_settings,
    run_git,
    run_program,
)
from rookery.platform.paths import visible
from rookery.platform.plain_runner import NAMED_PROGRAMS
from rookery.platform.user_folders import find_own_program

MOST_BYTES = 256 * MIB
LARGEST_FILE = "16m"
"""Larger files count as binary."""
LARGEST_MARKED = MIB
"""Bytes up to which a file that is marked as binary is looked into."""
_SECTIONS = re.compile(rb"(?m)^(?=diff --git )")
_BINARY = re.compile(rb"(?m)^Binary files .* differ$")
_DIFF = (
    *("-c", "core.quotePath=false", "-c", f"core.bigFileThreshold={LARGEST_FILE}", "diff"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--unified=5", "--inter-hunk-context=0"),
    *("--find-renames", "-l1000", "--ignore-submodules=dirty", "--relative"),
)
_GH_SECONDS = 120.0


class NamedDiff(Struct, frozen=True, kw_only=True):
    """A diff, and what it is called. `in_checkout` says that the workspace has its new files."""

    title: str
    data: bytes
    in_checkout: bool = True


class DiffRepository:
    """The repository around a folder. Only what is below the folder is compared."""

    def __init__(self, folder: Path) -> None:
        """Raises `SettingsError` if the folder is in no repository."""
        top, program = repository_of(folder), find_own_program("git", folder)
        if not program:
            raise SettingsError("git is not installed, or only in a folder that is not trusted.")
        if top is None:
            raise SettingsError(f"{visible(str(folder))} is not in a git repository.")
        self.top = top
        self.program = program
        self._folder = folder

    @property
    def below(self) -> str:
        """The folder, seen from the top of the repository; empty if it is the top."""
        inside = self._folder.relative_to(self.top).as_posix()
        return "" if inside == "." else inside

    def uncommitted(self, paths: Sequence[str] = ()) -> NamedDiff:
        with self._full_index() as index:
            data = self._diff(self._head_tree(), paths=paths, variables=index)
        return NamedDiff(title="uncommitted changes", data=data)

    def staged(self, paths: Sequence[str] = ()) -> NamedDiff:
        data = self._diff("--cached", self._head_tree(), paths=paths)
        return NamedDiff(title="staged changes", data=data)

    def since(self, base: str, tip: str = "HEAD", paths: Sequence[str] = ()) -> NamedDiff:
        """What the tip has that the base does not: the diff from their common ancestor."""
        first, last = self._commit(base), self._commit(tip)
        ancestor = self._ask("merge-base", first, last).text.strip() or first
        return NamedDiff(
            title=f'changes of "{visible(tip)}" since "{visible(base)}"',
            data=self._diff(ancestor, last, paths=paths),
            in_checkout=last == self._found_commit("HEAD"),
        )

    def commit(self, name: str, paths: Sequence[str] = ()) -> NamedDiff:
        found = self._commit(name)
        parent = self._found_commit(f"{found}^") or self._empty_tree()
        return NamedDiff(
            title=f'commit "{visible(name)}"',
            data=self._diff(parent, found, paths=paths),
            in_checkout=found == self._found_commit("HEAD"),
        )

    def names_commit(self, name: str) -> bool:
        return bool(self._found_commit(name))

    def subjects(self, count: int) -> list[str]:
        """Subjects of the last commits, newest first."""
        answer = self._ask("log", f"-{count}", "--no-merges", "--format=%s")
        return [visible(line) for line in answer.text.splitlines()] if answer.status == 0 else []

    def has_conflicts(self) -> bool:
        return bool(self._run("ls-files", "--unmerged", "-z").out)

    def changed_names(self, *, staged: bool) -> list[str]:
        """Paths that are staged, or that are changed or new, seen from the top."""
        words = ("diff", "--name-only", "-z", "--no-renames", "--ignore-submodules=dirty")
        if staged:
            return self._run(*words, "--cached", self._head_tree()).names
        with self._full_index() as index:
            return self._run(*words, self._head_tree(), variables=index).names

    def _diff(
        self, *words: str, paths: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> bytes:
        limits = ["--", *paths] if paths else []
        data = self._run(*_DIFF, *words, *limits, variables=variables).out
        literal = {**(variables or {}), "GIT_LITERAL_PATHSPECS": "1"}
        for section, path in self._marked_binary(data):
            text = self._run(*_DIFF, "--text", *words, "--", path, variables=literal).out
            if text and b"\0" not in text:
                data = data.replace(section, text, 1)
        return data

    def _marked_binary(self, data: bytes) -> Iterator[tuple[bytes, str]]:
        """Sections of files that count as binary only because of `.gitattributes`: a change must
        not exempt itself from the review."""
        sections = {
            read_diff(section)[0].path: section
            for section in _SECTIONS.split(data)
            if _BINARY.search(section)
        }
        given = b"".join(os.fsencode(path) + b"\0" for path in sections)
        found = self._run("check-attr", "-z", "--stdin", "diff", given=given).names if given else []
        for path, value in zip(found[::3], found[2::3], strict=True):
            if value == "unset" and not self._is_large(path):
                yield sections[path], path

    def _is_large(self, path: str) -> bool:
        try:
            return (self._folder / path).lstat().st_size > LARGEST_MARKED
        except OSError:
            return False

    def _commit(self, name: str) -> str:
        if found := self._found_commit(name):
            return found
        raise SettingsError(f"No such commit or branch: {visible(name)}.")

    def _found_commit(self, name: str) -> str:
        if not name or name.startswith("-"):
            return ""
        return self._ask("rev-parse", "--verify", "-q", f"{name}^{{commit}}").text.strip()

    def _head_tree(self) -> str:
        return self._found_commit("HEAD") or self._empty_tree()

    def _empty_tree(self) -> str:
        return self._run("hash-object", "-t", "tree", "--stdin").text.strip()

    @contextmanager
    def _full_index(self) -> Iterator[dict[str, str]]:
        """A copy of the index with all files that are not ignored; nothing else is written."""
        git = Path(self._run("rev-parse", "--absolute-git-dir").text.strip())
        objects = self._run("rev-parse", "--git-path", "objects").text.strip()
        with tempfile.TemporaryDirectory(prefix="diff-") as folder:
            index = Path(folder) / "index"
            if (git / "index").exists():
                shutil.copy2(git / "index", index)
            variables = {"GIT_INDEX_FILE": str(index)}
            if new := self.new_files():
                listed = ("--pathspec-from-file=-", "--pathspec-file-nul")
                elsewhere = {
                    "GIT_OBJECT_DIRECTORY": folder,
                    "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._folder / objects),
                    "GIT_LITERAL_PATHSPECS": "1",
                }
                self._run(
                    *("add", "--intent-to-add", *listed),
                    given=new,
                    variables=variables | elsewhere,
                )
            yield variables

    def new_files(self) -> bytes:
        """The names of files that are neither tracked nor ignored, each with a zero byte."""
        ignored = read_settings(
            self.program, ["--path", "core.excludesFile"], folder=self._folder
        ).strip()
        setting = ("-c", f"core.excludesFile={ignored}") if ignored else ()
        found = self._run(*setting, "ls-files", "-o", "--exclude-standard", "-z").out
        # a name that ends with a slash is another repository
        return b"".join(name + b"\0" for name in found.split(b"\0") if name[-1:] not in (b"", b"/"))

    def _run(
        self, *words: str, given: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> GitAnswer:
        answer = self._ask(*words, given=given, variables=variables)
        if answer.status:
            raise StorageError(f"git failed: {visible(answer.last_error)}.")
        return answer

    def _ask(
        self, *words: str, given: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> GitAnswer:
        return self._git(words, given, {**self._without_programs, **(variables or {})})

    def _git(self, words: Sequence[str], given: bytes, variables: Mapping[str, str]) -> GitAnswer:
        try:
            return run_git(
                self.program,
                words,
                folder=self._folder,
                root=str(self.top),
                variables=variables,
                given=given,
                seconds=GIT_SECONDS,
            )
        except ProgramTimeout as error:
            raise StorageError(f"git did not finish within {GIT_SECONDS:g} s.") from error
        except OSError as error:
            raise StorageError(f"git cannot be run ({error.strerror}).") from error

    @cached_property
    def _without_programs(self) -> dict[str, str]:
        words = ("config", "-z", "--name-only", "--get-regexp", NAMED_PROGRAMS)
        return disabled_programs(self._git(words, b"", {}).names)


def read_patch(name: str, stream: BinaryIO) -> NamedDiff:
    """The diff in a file or on standard input. Raises `SettingsError` if it is too large."""
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise SettingsError(f"{visible(name)} is larger than {MOST_BYTES // MIB} MiB.")
    return NamedDiff(title=f'patch "{visible(name)}"', data=data, in_checkout=False)


def pull_request(number: int, folder: Path) -> NamedDiff:
    """The diff of a pull request, from the user's own `gh`. Raises `SettingsError`."""
    program = find_own_program("gh", folder)
    if not program:
        raise SettingsError(
            "--pr needs gh, which is not installed (https://cli.github.com). Or give the diff "
            "with --patch FILE."
        )
    argv = (program, "pr", "diff", str(number), "--color", "never")
    try:
        done = run_program(
            argv, cwd=folder, environment=os.environ, seconds=_GH_SECONDS, most=MOST_BYTES
        )
    except OSError as error:
        raise SettingsError(f"gh failed: {error.strerror}.") from error
    if done.status:
        lines = done.errors.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise SettingsError(f"gh could not get pull request {number}: {visible(lines[-1])}")
    return NamedDiff(title=f"pull request {number}", data=done.out, in_checkout=False)
