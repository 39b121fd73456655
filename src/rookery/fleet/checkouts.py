"""The files of a session, carried from worker to worker by git.

A worker keeps one bare repository per remote as a cache of objects, and makes a clone of it for
each session. Checkpoints are commits of everything in the clone that git does not ignore. They are
pushed to a hidden ref of the remote that has the writer's token in its name: two workers never
push to the same ref. Which of them counts is in the database, where only the holder of the lease
can write it.

The clone belongs to the agent, so nothing in it is obeyed: git runs hardened, with the cache as
its repository. Only fetch and push use the worker's own git settings, for its credentials.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from rookery.errors import RookeryError, SettingsError, StorageError
from rookery.first_use import lazy_pattern
from rookery.platform.locks import file_lock
from rookery.platform.own_programs import (
    ProgramTimeout,
    run_git,
    run_program,
    without_git_variables,
)
from rookery.platform.user_folders import find_own_program
from rookery.platform.worktree_git import Git

HIDDEN = "refs/rookery/sessions"
"""Below it are the checkpoints on the remote. Clones do not fetch it."""
HEADS = "refs/rookery/heads"
"""In the cache: the commits that clones are at."""
NETWORK_SECONDS = 600.0
PROTOCOLS = "https:ssh"
LOCAL = "file"
_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_HELPER = lazy_pattern(r"[A-Za-z0-9+.-]*::")
_BEFORE_HOST = lazy_pattern(r"://[^/\s'\"]*@")
_LONGEST_LOCAL = 300.0
_LONGEST = 1000
_ADVICE = ("hint: ", "Please make sure you have the correct access", "and the repository exists")
_PLACEHOLDER = ".rookery-placeholder"


class CheckoutFailed(RookeryError):
    """The repository could not be fetched, checked out or pushed."""


class SavedCheckpoint(Struct, frozen=True):
    """Files as they were after event `seq`, and where the remote has them."""

    seq: int
    commit: str
    ref: str


def check_remote(url: str) -> None:
    """Raise `SettingsError` for an address that is not one of a repository, or that holds a
    secret: it would be in the database."""
    parts = urlsplit(url) if "://" in url else None
    if url.startswith("-") or not url.isprintable() or _HELPER.match(url):
        raise SettingsError(f"{without_secret(url)!r} is not the address of a git repository.")
    if parts is None:
        return
    if parts.scheme not in ("https", "ssh", "file"):
        raise SettingsError(
            f"{without_secret(url)!r} is not the address of a git repository: use https or ssh."
        )
    # what stands before the host is a user in ssh, and a token in https
    if parts.password is not None or (parts.scheme == "https" and parts.username is not None):
        raise SettingsError(
            "The address of the repository contains a password or a token. Give workers a "
            "credential helper or an SSH key instead, and use the address without it."
        )
    if parts.query or parts.fragment:
        raise SettingsError(
            "The address of the repository has a query or a fragment. Leave it out."
        )


def without_secret(text: str) -> str:
    """The text with what stands before the hosts of its addresses left out."""
    return _BEFORE_HOST.sub("://", text)


def check_name(name: str) -> None:
    """Raise `SettingsError` for a session or a branch whose name could be another path, an option
    or a refspec. Names come from the database."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".lock", ".")):
        raise SettingsError(
            f"{name!r} is not a valid name for a session or a branch. Use letters, digits, _ . + - "
            "and /."
        )


class SessionCheckout:
    """The clone of one session on one worker."""

    def __init__(self, root: Path, url: str, session_id: str, protocols: str) -> None:
        check_remote(url)
        self.folder = root / "work" / session_id
        self._url = url
        self._session = session_id
        self._protocols = protocols
        name = hashlib.sha256(url.encode()).hexdigest()[:16]
        self._cache = root / "cache" / f"{name}.git"
        self._index = root / "index" / session_id
        self._saved: list[SavedCheckpoint] = []
        """Those that may be on the remote, oldest first; the last one may not be recorded yet."""
        self._content = "", ""
        """The tree and the commit below it that were saved last."""
        self._pushes = 0
        self._program = find_own_program("git", self.folder)
        if not self._program:
            raise CheckoutFailed("git is not installed on this worker. Install it.")

    def prepare(self, ref: str, saved: SavedCheckpoint | None) -> None:
        """Make the clone: the branch as it is now, or the files of a checkpoint."""
        with self._locked_cache():
            # also mends what a killed `init` left
            self._local("init", "--bare", "--quiet", str(self._cache), folder=self._cache)
            self._remove_stale_locks()
            spec = f"+{saved.ref}:{saved.ref}" if saved else f"+refs/heads/{ref}:refs/heads/{ref}"
            self._network("fetch", "--no-tags", "--quiet", "--", self._url, spec)
        self._saved = [saved] if saved else []
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._index.parent.mkdir(parents=True, exist_ok=True)
        # a name of our own for the commit: what can be cloned is a branch
        start = f"{saved.commit}^" if saved else f"refs/heads/{ref}"
        commit = self._git.commit(start)
        if not commit:
            raise CheckoutFailed(
                f"The repository has no {saved.ref} with the checkpoint {saved.commit}."
                if saved
                else f"The repository has no branch {ref}. Check --ref."
            )
        clone = ("clone", "--shared", "--no-checkout", "--quiet", "--", str(self._cache))
        self._local(*clone, str(self.folder), folder=self._cache)
        own = {"GIT_DIR": str(self.folder / ".git"), "GIT_WORK_TREE": str(self.folder)}
        self._local("checkout", "--quiet", "--force", "-B", ref, commit, variables=own)
        self._local("remote", "set-url", "origin", self._url, variables=own)
        if saved:
            self._local("read-tree", "-u", "--reset", saved.commit, variables=own)
            self._local("reset", "--quiet", "--mixed", commit, variables=own)
        self._git.run("read-tree", commit, variables=self._own_index)

    def save(self, seq: int, token: int) -> SavedCheckpoint:
        """Commit all files that git does not ignore, and push them to a hidden ref. The one before
        stays until this one is recorded; it is removed with the next push."""
        self._open_repositories()
        self._git.run("add", "--all", "--", ".", variables=self._own_index)
        tree, head = self._git.output("write-tree", **self._own_index), self._head()
        if self._saved and self._content == (tree, head):
            self._saved[-1] = replace(self._saved[-1], seq=seq)
            return self._saved[-1]
        words = ("commit-tree", tree, "-p", head, "-m", f"rookery session at event {seq}")
        commit = self._git.output(*words)
        self._pushes += 1
        ref = f"{HIDDEN}/{self._session}/{token}-{self._pushes}"
        self._push(f"{commit}:{ref}", [f":{each.ref}" for each in self._saved[:-1]])
        self._saved = [*self._saved[-1:], SavedCheckpoint(seq, commit, ref)]
        self._content = tree, head
        return self._saved[-1]

    def _open_repositories(self) -> None:
        """Make `git add` include the files of repositories inside the clone. git looks into such a
        folder only if the index has a file in it, so a placeholder is added there."""
        others = ("ls-files", "--others", "--exclude-standard")
        seen: set[str] = set()
        while (
            found := {
                name
                for name in self._git.names(*others, "-z", **self._own_index)
                if name.endswith("/")
            }
            - seen
        ):
            seen |= found
            empty = self._git.output("hash-object", "-t", "blob", "-w", os.devnull)
            for name in found:
                entry = f"100644,{empty},{name}{_PLACEHOLDER}"
                words = ("update-index", "--add", "--cacheinfo", entry)
                self._git.run(*words, variables=self._own_index)

    def _push(self, spec: str, removed: Sequence[str]) -> None:
        push = ("push", "--quiet", "--", self._url, spec)
        try:
            self._network(*push, *removed)
        except CheckoutFailed:
            if not removed:
                raise
            self._network(*push)  # another worker may have removed them

    def remove(self) -> None:
        """Remove the clone, and now and then what the cache needs no more. Git keeps objects for
        two weeks, so clones that use the cache miss nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._index.unlink(missing_ok=True)
        with suppress(CheckoutFailed, StorageError):
            mine = f"{HIDDEN}/{self._session}/", f"{HEADS}/{self._session}"
            refs = self._local("for-each-ref", "--format=%(refname)", *mine, folder=self._cache)
            for ref in refs.split():
                self._local("update-ref", "-d", ref, folder=self._cache)
            tidy = ("-c", "gc.autoDetach=false", "gc", "--auto", "--quiet")
            self._local(*tidy, folder=self._cache)

    def _remove_stale_locks(self) -> None:
        """Remove the lock files of git processes that were killed: git would wait for ever."""
        oldest = time.time() - NETWORK_SECONDS
        for lock in (*self._cache.glob("*.lock"), *(self._cache / "refs").rglob("*.lock")):
            with suppress(FileNotFoundError):
                if lock.stat().st_mtime < oldest:
                    lock.unlink()

    def _head(self) -> str:
        """The commit that the agent's clone is at, brought into the cache."""
        own = {"GIT_DIR": str(self.folder / ".git")}
        head = self._local("rev-parse", "--verify", "HEAD^{commit}", variables=own)
        if not self._git.commit(head):
            mark = f"{HEADS}/{self._session}"
            fetch = ("fetch", "--no-tags", "--quiet", "--", str(self.folder), f"+HEAD:{mark}")
            local = ("-c", "protocol.file.allow=always", *fetch)
            self._local(*local, folder=self._cache, variables={"GIT_ALLOW_PROTOCOL": "file"})
        return head

    @property
    def _git(self) -> Git:
        return Git(self._program, self._cache, self.folder, self._cache)

    @property
    def _own_index(self) -> dict[str, str]:
        return {"GIT_INDEX_FILE": str(self._index), "GIT_LITERAL_PATHSPECS": "0"}

    def _locked_cache(self) -> AbstractContextManager[None]:
        self._cache.mkdir(parents=True, exist_ok=True)
        return file_lock(self._cache.with_suffix(".lock"), wait=NETWORK_SECONDS)

    def _local(
        self,
        *words: str,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Run git hardened, without network."""
        allowed = {"GIT_ALLOW_PROTOCOL": "file", **(variables or {})}
        here = folder or self.folder
        if folder == self._cache and words[0] != "clone":
            allowed["GIT_DIR"] = str(self._cache)
        configured = ("-c", "protocol.file.allow=always", *words)
        try:
            done = run_git(
                self._program, configured, folder=here, variables=allowed, seconds=_LONGEST_LOCAL
            )
        except (OSError, ProgramTimeout) as error:
            raise CheckoutFailed(f"git {words[0]} failed in {here} ({error}).") from error
        if done.status:
            raise CheckoutFailed(f"git {words[0]} failed in {here}: {done.last_error}")
        return done.text.strip()

    def _network(self, *words: str) -> None:
        """Run git with the worker's own settings in the cache, which no agent writes."""
        environment = {
            **without_git_variables(),
            "GIT_DIR": str(self._cache),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": self._protocols,
            "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        }
        argv: Sequence[str] = (self._program, "-c", "gc.auto=0", *words)
        try:
            done = run_program(
                argv, cwd=self._cache, environment=environment, seconds=NETWORK_SECONDS
            )
        except OSError as error:
            raise CheckoutFailed(f"git {words[0]} with {self._url} failed ({error}).") from error
        if done.status:
            said = _complaint(done.errors.decode("utf-8", "replace"))
            raise CheckoutFailed(f"git {words[0]} with {self._url} failed: {said or done.status}")


def _complaint(errors: str) -> str:
    """What git and the remote say, on one line. Git's advice at the end is left out."""
    # git may name the address that the worker's own settings made of it
    lines = [line.strip() for line in without_secret(errors).splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith(_ADVICE))[-_LONGEST:]
