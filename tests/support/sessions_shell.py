"""A terminal to run `rookery sessions` in: a repository, its own home, a scripted model, and
managers that can be killed."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from support.repositories import copy_of
from support.text_process import Started, start_text

PATIENCE = 60
FIRST_COMMIT = [
    *("-c", "user.name=a", "-c", "user.email=a@b"),
    *("commit", "-q", "--allow-empty", "-m", "x"),
]
RUNNING_MANAGER = Path(__file__).with_name("running_manager.py")


def _make_repository(folder: Path) -> None:
    for words in (["init", "-q", "-b", "main"], FIRST_COMMIT):
        subprocess.run(["git", *words], cwd=folder, check=True)


class Shell:
    """A terminal in a repository with one commit."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder = folder
        self.path = folder / "work"
        self._script = folder / "script.yaml"
        self.plays(script)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "decoy"),
            "ROOKERY_HOME": str(folder / "home"),
            "ROOKERY_PROVIDER": "scripted",
            "ROOKERY_MODEL": str(self._script),
            "LANG": "C.UTF-8",
        }
        TrustStore(find_places(self.environ).trust_file).trust(self.path)
        copy_of(_make_repository, self.path)

    def plays(self, script: str) -> None:
        """Set the script of sessions that are started from now on."""
        self._script.write_text(script, encoding="utf-8")

    def begin(self, *words: str) -> Started:
        return start_text(["sessions", *words], self.environ, self.path)

    def run(self, *words: str) -> tuple[int, str, str]:
        with self.begin(*words) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return process.wait(), out, err

    def reported(self, *words: str) -> Any:
        """The JSON output of a command that must succeed."""
        code, out, err = self.run(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    def start(self, *words: str) -> str:
        (session_id,) = self.reported("start", "Do it", *words)["session_ids"]
        assert isinstance(session_id, str)
        return session_id

    def states(self) -> dict[str, str]:
        return {row["session_id"]: row["state"] for row in self.reported("list")["sessions"]}

    @contextmanager
    def manager(self) -> Iterator[Started]:
        """Start a manager that runs until it is killed."""
        with start_text([], self.environ, self.path, program=RUNNING_MANAGER) as process:
            try:
                assert process.stdout
                assert process.stdout.readline() == "ready\n"
                yield process
            finally:
                process.kill()

    def left(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if os.fsencode(self.folder) in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found


@contextmanager
def open_shell(folder: Path, script: str) -> Iterator[Shell]:
    """A shell whose processes are killed at the end."""
    shell = Shell(folder, script)
    try:
        yield shell
    finally:
        for pid in shell.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
