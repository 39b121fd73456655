"""A task of many turns, run by the real host and then by the real command. Records each request
byte for byte.

Everything that can change during a task changes. The clock changes at every look, and the cost with
every answer. Once per round the todo list, background commands, the branch and a known file change.
"""

import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from llm_server import Answer, LlmServer, Recorded, call, finish, say, status, think
from rookery.app.local_host import open_host
from rookery.app.model_choice import choose_model
from rookery.app.task_factory import SystemClock
from rookery.app.task_hooks import Consent
from rookery.core.asks import AskKind
from rookery.core.commands import Answer as Reply
from rookery.core.commands import OpenTask, Speak
from rookery.core.facts import Asked
from rookery.core.modes import Level
from rookery.engine.engine import Engine
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings
from support.terminal_session import Installed

ROUNDS = 10 if os.environ.get("ROOKERY_TORTURE") else 2
TURNS_OF_A_ROUND = 11
PLAYED_BEFORE_THE_RESTART = ROUNDS * 7 // 10
"""Rounds before the process ends, at the question of the next one, and another process resumes."""
TASK = "3f1d8f1a-52a1-4f0e-8d5e-0d7b6c1a9e01"
MODELS = {"openrouter": "anthropic/claude-sonnet-5.5"}
MODEL = "some-model"
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 8, 6)
MINUTE = 60_000
SETTINGS = """\
provider = "{provider}"
model = "{model}"
base_url = "{url}"
nudges = 100
[models."{model}"]
window = 1_000_000
images = true
thinking = true
caching = true
input_price = 10_000.0
output_price = 10_000.0
"""


def record(wire: str, folder: Path) -> Sequence[Recorded]:
    """All requests of the task in the format of one provider."""
    installed = Installed(folder)
    furnish(installed.workspace)
    with LlmServer(*script()) as server, pytest.MonkeyPatch.context() as patch:
        _settle(installed, wire, server.url)
        for name, text in installed.environ.items():
            patch.setenv(name, text)
        patch.setattr(SystemClock, "now", FastClock().now)
        anyio.run(_play_until_the_restart, installed)
        _switch_branch(installed.workspace, "after-the-restart")
        # a new interpreter, with other hashes, takes longer than the rest: one wire format has it
        seed = {"PYTHONHASHSEED": "4711"} if wire == "anthropic" else {}
        done = installed.run("-p", "-y", "-c", "Where were we?", **seed)
        assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
        assert not server.exhausted
        return server.requests


def script() -> Iterator[Answer]:
    yield status(429, headers={"retry-after": "0.01"})
    for number in range(ROUNDS):
        turns = list(_round(number))
        assert len(turns) == TURNS_OF_A_ROUND
        yield from turns
    yield [finish("All done.")]


def _round(number: int) -> Iterator[Answer]:
    yield [think(f"Round {number}.", signature=f"c2lnbmVk{number}"), call("read_file", path="a.py")]
    old, new = f"count = {number}", f"count = {number + 1}"
    yield [say("Grüße! "), call("edit", file_path="a.py", old_string=old, new_string=new)]
    yield [call("execute_command", command=f"echo {number}; cat a.py", cwd=None, timeout=None)]
    yield [call("execute_command", command=f"sleep {300 + number}", timeout=0.01)]
    yield [call("update_todo_list", todos=f"[x] step {number}\n[-] step {number + 1}")]
    offered = [{"text": f"Answer {number}", "mode": None}]
    yield [call("ask_followup_question", question=f"And {number}?", follow_up=offered)]
    yield [
        call("list_files", path=".", recursive=False),
        call("search_files", path=".", regex=f"count = {number + 1}", file_pattern=None),
    ]
    yield [say(f"A picture, {number} times."), call("read_file", path="picture.png")]
    yield [call("write_to_file", path=f"made/{number}.txt", content=f"{number}\n")]
    yield [call("read_file", path=f"missing-{number}.py")]
    yield [say(f"<read_file><path>a.py</path></read_file> as text, {number}.")]


class FastClock:
    """Advances a minute with every look, so that no two requests have the same time."""

    def __init__(self) -> None:
        self._now = SystemClock().now()

    def now(self, *clock: SystemClock) -> int:
        self._now += MINUTE
        return self._now


def furnish(workspace: Path) -> None:
    (workspace / "a.py").write_text("count = 0\n", encoding="utf-8")
    (workspace / "notes.txt").write_text("Nothing yet.\n", encoding="utf-8")
    (workspace / "picture.png").write_bytes(PICTURE)
    subprocess.run(["git", "init", "-q", "-b", "round-none"], cwd=workspace, check=True)


def _settle(installed: Installed, wire: str, url: str) -> None:
    file = find_places(installed.environ).settings_file
    text = SETTINGS.format(provider=wire, model=model_of(wire), url=_base(wire, url))
    file.write_text(text, encoding="utf-8")


async def _play_until_the_restart(installed: Installed) -> None:
    places = find_places(os.environ)
    settings = find_settings(places.settings_file, installed.workspace, {}, {}).settings
    choice = choose_model(settings, {}, places.keys_file, None)
    consent = Consent(level=Level.AUTO, trusted=True)
    with anyio.fail_after(120):
        async with open_host(
            settings,
            choice,
            TaskStore(places),
            installed.workspace,
            places,
            consent,
            choose=lambda wanted: choose_model(wanted, {}, places.keys_file, None),
        ) as host:
            await host.send(OpenTask(task_id=TASK, text="Count, and look at @/notes.txt"))
            await _attend(host, installed.workspace)


async def _attend(host: Engine, workspace: Path) -> None:
    """Answer the question of every round, up to the one at which the process ends."""
    answered = 0
    async for event in host.follow(TASK, 0):
        if not isinstance(event.fact, Asked) or event.fact.ask is not AskKind.FOLLOWUP:
            continue
        if answered == PLAYED_BEFORE_THE_RESTART:
            return
        _switch_branch(workspace, f"round-{answered}")
        (workspace / "a.py").write_text(f"count = {answered + 1}\n# by others\n", encoding="utf-8")
        words = f"By the way, {answered}."
        await host.send(Speak(task_id=TASK, message_id=words, text=words))
        await host.send(
            Reply(
                task_id=TASK,
                ask_id=event.fact.ask_id,
                reply="message",
                text=f"Go on, {answered}.",
                digest=event.fact.digest,
            )
        )
        answered += 1


def _switch_branch(workspace: Path, name: str) -> None:
    subprocess.run(["git", "symbolic-ref", "HEAD", f"refs/heads/{name}"], cwd=workspace, check=True)


def first_request(wire: str, folder: Path, settings: str) -> Recorded:
    """The first request of the command in a new repository, with these settings."""
    installed = Installed(folder)
    furnish(installed.workspace)
    find_places(installed.environ).settings_file.write_text(settings, encoding="utf-8")
    with LlmServer([finish()]) as server:
        assert installed.run("-p", *flags_for(wire, server), "go").returncode == 0
        return server.requests[0]


def flags_for(wire: str, server: LlmServer) -> list[str]:
    return ["--provider", wire, "-m", model_of(wire), "--base-url", _base(wire, server.url)]


def model_of(wire: str) -> str:
    return MODELS.get(wire, MODEL)


def _base(wire: str, url: str) -> str:
    return url if wire in ("anthropic", "bedrock") else f"{url}/v1"
