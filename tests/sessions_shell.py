"""A terminal in which `rookery sessions` is typed: a repository, a home of its own, a scripted
model, and managers that can be killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rookery.storage.places import find_places
from rookery.storage.trust import TrustStore

PATIENCE = 60
RUN_ON = """\
import sys, anyio, os
from pathlib import Path
from rookery.cli.sessions_surroundings import UsualSurroundings
from rookery.manager.manager_socket import listening
from rookery.manager.opening import open_manager
from rookery.storage.places import find_places

async def main():
    places, project = find_places(os.environ), Path.cwd()
    surroundings = UsualSurroundings(project, places)
    async with open_manager(project, places, os.environ, surroundings) as manager:
        async with listening(manager, places):
            print("ready", flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


class Shell:
    """A terminal in a repository with one commit."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder = folder
        self.path = folder / "work"
        self.script = folder / "script.yaml"
        self.script.write_text(script, encoding="utf-8")
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "decoy"),
            "ROOKERY_HOME": str(folder / "home"),
            "ROOKERY_PROVIDER": "scripted",
            "ROOKERY_MODEL": str(self.script),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONSAFEPATH": "1",
        }
        TrustStore(find_places(self.environ).trust_file).trust(self.path)
        for words in (
            ["init", "-q", "-b", "main"],
            [
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "x",
            ],
        ):
            subprocess.run(["git", *words], cwd=self.path, check=True, env=self.environ)

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "rookery", "sessions", *words],
            cwd=self.path,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        with self.begin(*words) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def told(self, *words: str) -> Any:
        """The answer of a command that succeeds."""
        code, out, err = self.run(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    def start(self, *words: str) -> str:
        (session_id,) = self.told("start", "Do it", *words)["session_ids"]
        assert isinstance(session_id, str)
        return session_id

    def states(self) -> dict[str, str]:
        return {row["session_id"]: row["state"] for row in self.told("list")["sessions"]}

    @contextmanager
    def manager(self) -> Iterator["subprocess.Popen[str]"]:
        """One that runs on until it is killed."""
        with subprocess.Popen(
            [sys.executable, "-c", RUN_ON],
            cwd=self.path,
            env=self.environ,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
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
def opened_shell(folder: Path, script: str) -> Iterator[Shell]:
    """No process is left behind."""
    shell = Shell(folder, script)
    try:
        yield shell
    finally:
        for pid in shell.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
