"""The warm sessions of the tests behave like normally started ones."""

import os
import signal
from pathlib import Path

import pytest

from support.manager_project import WRITES, Project, kill
from support.text_process import PLAINLY

pytestmark = pytest.mark.anyio


async def test_a_warm_session_behaves_like_a_normally_started_one(project: Project):
    seen = []
    for environ in ({}, PLAINLY):
        project.environ |= environ
        async with project.supervised() as watched:
            session_id = await watched.supervisor.start(project.start_options(WRITES))
            pid = (await watched.at(session_id, "waiting_approval")).record.pid
            assert pid
            looks = _looks(pid, session_id)
            kill(pid, signal.SIGKILL)
            shown = await watched.at(session_id, "error")
            seen.append((looks, shown.record.last_exit))
    assert seen[0] == seen[1]
    assert seen[0][1].signal == signal.SIGKILL


def _looks(pid: int, session_id: str) -> dict[str, object]:
    process = Path(f"/proc/{pid}")
    state = (process / "stat").read_bytes().rpartition(b")")[2].split()
    words = (process / "cmdline").read_bytes().rstrip(b"\0").decode().replace(session_id, "ID")
    streams = [os.readlink(process / "fd" / number) for number in "012"]
    return {
        "words": [word for word in words.split("\0") if not word.endswith(".yaml")],
        "is ours": int(state[1]) == os.getpid(),
        "leads": os.getpgid(pid) == os.getsid(pid) == pid,
        "works in": os.readlink(process / "cwd"),
        "has": [file.replace(session_id, "ID") for file in streams],
    }
