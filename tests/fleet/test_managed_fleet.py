"""`rookery manager --database`: what it shows of a fleet, and which workers it believes."""

import json
import os
import signal
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from rookery.core.facts import Answered, AssistantSpoke, RequestStarted
from rookery.core.fleet_rows import FleetSession
from rookery.fleet.database import connect as connected
from rookery.fleet.database import digest_of
from rookery.fleet.orders import Fleet
from rookery.manager.web.listeners import Address, self_signed
from rookery.protocol.remote import RemoteServer
from rookery.protocol.worker_channel import WorkerGreeting, dial_manager
from support.fleet_machines import FLEET_COMMAND, Start, events, submit, until, wait
from support.warm_programs import start_program
from support.web_channel import WebChannel

pytestmark = pytest.mark.anyio

ANSWER = "It begins, and goes on and on and on and on and on and on and on and on and on."
STREAMS = f"""
- calls:
    - tool: write_to_file
      arguments: {{path: one.txt, content: "one\\n"}}
- say: "{ANSWER}"
  pause: 0.5
"""
ASKS = "- calls: [{tool: execute_command, arguments: {command: make it}}]\n- say: Done.\n"
WONDERS = """
- calls:
    - tool: ask_followup_question
      arguments: {question: "Round up?", follow_up: [{text: "Up"}, {text: "Down"}]}
- calls:
    - tool: ask_followup_question
      arguments: {question: "Really?", follow_up: [{text: "Up"}, {text: "Down"}]}
- say: Done.
"""
SECONDS = 60


class Page(RemoteServer):
    """A page of the manager."""

    def read(self, method: str, fields: dict[str, Any]) -> object:
        return fields["change"] if method == "view" else None

    async def do(self, kind: str, **fields: object) -> Any:
        return await self.call("do", {"kind": kind, **fields})


class ManagerProcess:
    def __init__(self, folder: Path, address: str) -> None:
        (folder / "project").mkdir(parents=True)
        words = ["manager", "--database", address, "--port", "0", "--no-open", "--json"]
        words += ["-w", str(folder / "project")]
        out, said = os.pipe()
        with os.fdopen(out) as output:
            with os.fdopen(said, "wb"):
                self.process = start_program(
                    FLEET_COMMAND, *words, output=said, ROOKERY_HOME=str(folder)
                )
            self.url, code = json.loads(output.readline())["launch_url"].split("#launch=")
        given = httpx2.post(f"{self.url}api/launch", json={"code": code}, trust_env=False)
        self.token = given.json()["token"]
        self.root = self.url.partition("/p/")[0]

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(SECONDS)

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        async with connect(f"{self.url.replace('http', 'ws', 1)}ws", proxy=None) as socket:
            page = Page(WebChannel(socket))
            async with anyio.create_task_group() as group:
                group.start_soon(page.run)
                await page.initialize({"token": self.token})
                yield page
                group.cancel_scope.cancel()


@pytest.fixture
def manager(address: str, tmp_path: Path) -> Iterator[ManagerProcess]:
    with closing(ManagerProcess(tmp_path / "manager", address)) as running:
        yield running


def until_it_answers(address: str) -> None:
    """Wait until the model has streamed the second answer for a while."""

    def has_begun() -> bool:
        asked = [e.ts for e in fleet.events("s1") if isinstance(e.fact, RequestStarted)]
        return len(asked) == 2 and time.time() * 1000 - asked[-1] > 2000

    with closing(Fleet(address)) as fleet:
        until(has_begun)


async def test_it_lists_the_fleet_and_shows_text_while_the_model_streams_it(
    address: str, remote: Path, start: Start, manager: ManagerProcess
):
    start("a", STREAMS, "--permission-mode", "auto", "--label", "gpu").wait_until_ready()
    submit(address, "s1", remote)
    await anyio.to_thread.run_sync(until_it_answers, address)
    async with manager.page() as page:
        follow = {"session_id": "s1"}
        with anyio.fail_after(SECONDS):
            async with aclosing(page.news("follow_fleet", follow)) as changes:
                async for change in changes:
                    rows = [*change.get("added", ()), *change.get("changed", ())]
                    texts = [row["text"] for row in rows if row.get("partial")]
                    if any(texts):
                        assert ANSWER.startswith(texts[0])
                        if texts[0].startswith("It begins"):
                            break
        stored = [e.fact for e in events(address, "s1")]
        assert sum(isinstance(fact, AssistantSpoke) for fact in stored) == 1  # not the last one
        listed = await page.do("list_fleet")
        assert [each["session_id"] for each in listed["sessions"]] == ["s1"]
        assert [(q["label"], q["running"], q["slots"]) for q in listed["queues"]] == [
            ("", 1, 1),
            ("gpu", 0, 1),
        ]
        await page.do("cancel_fleet_session", id="s1")
        await anyio.to_thread.run_sync(until_it_is, "cancelled", address)
        assert (await page.do("list_fleet"))["sessions"][0]["state"] == "cancelled"


async def test_a_question_is_answered_if_it_is_the_one_that_was_shown(
    address: str, remote: Path, start: Start, manager: ManagerProcess
):
    start("a", ASKS, "--permission-mode", "edits").wait_until_ready()
    submit(address, "s1", remote)
    asked = await anyio.to_thread.run_sync(wait, address, "s1")
    async with manager.page() as page:
        with pytest.raises(Exception, match="asks something else now"):
            await page.do("answer_fleet_session", id="s1", reply="yes", digest="0" * 64)
        await page.do("answer_fleet_session", id="s1", reply="no", digest=asked.digest)
        await anyio.to_thread.run_sync(until_it_is, "completed", address)


async def test_a_yes_is_the_text_of_the_answer_to_an_open_question_and_answers_no_later_one(
    address: str, remote: Path, start: Start, manager: ManagerProcess
):
    start("a", WONDERS).wait_until_ready()
    submit(address, "s1", remote)
    first = await anyio.to_thread.run_sync(wait, address, "s1")
    async with manager.page() as page:
        with pytest.raises(Exception, match="The answer is empty"):
            await page.do("answer_fleet_session", id="s1", reply="message", text=" ")
        await page.do("answer_fleet_session", id="s1", reply="yes", digest=first.digest)
        second = await anyio.to_thread.run_sync(until_it_asks, "Really?", address)
        with pytest.raises(Exception, match="asks something else now"):
            await page.do("answer_fleet_session", id="s1", reply="yes", digest=first.digest)
        await page.do("answer_fleet_session", id="s1", reply="no", digest=second.digest)
        await anyio.to_thread.run_sync(until_it_is, "completed", address)
    facts = [each.fact for each in events(address, "s1")]
    said = [fact.text for fact in facts if isinstance(fact, Answered) and fact.text]
    assert said == ["yes", "no"]


def until_it_asks(words: str, address: str) -> FleetSession:
    with closing(Fleet(address)) as fleet:
        until(lambda: words in fleet.session("s1").question)
        return fleet.session("s1")


def until_it_is(state: str, address: str) -> None:
    with closing(Fleet(address)) as fleet:
        until(lambda: fleet.session("s1").state == state)


async def test_only_the_slot_that_writes_a_session_may_show_its_text(
    address: str, manager: ManagerProcess
):
    with connected(address) as database:
        for name, secret in (("a/0/1", "right"), ("b/0/2", "other")):
            database.execute(
                "insert into rookery.workers (executor, name, labels, state, digest) "
                "values (%s, %s, '{}', 'ready', %s)",
                [name, name[0], digest_of(secret)],
            )
        database.execute(
            "insert into rookery.journals values ('s1', 1, 'a/0/1', now() + interval '1 hour')"
        )
        database.execute(
            "insert into rookery.sessions (task, label, repo, ref, text, state) "
            "values ('s1', '', 'r', 'main', 'Go', 'running')"
        )
    follow = {"session_id": "s1"}
    async with manager.page() as page, aclosing(page.news("follow_fleet", follow)) as changes:
        await anext(changes)
        for executor, secret, believed in (
            ("a/0/1", "right", True),
            ("a/0/1", "other", False),
            ("b/0/2", "other", False),
            ("a/0/1", "", False),
        ):
            greeting = WorkerGreeting(executor=executor, secret=secret, session_id="s1")
            assert await _is_believed(manager.root, greeting) == believed, greeting


async def _is_believed(url: str, greeting: WorkerGreeting) -> bool:
    """Whether the manager becomes the client of this worker."""
    try:
        async with dial_manager(url, "", greeting) as channel:
            return b"initialize" in await channel.receive()
    except OSError:
        return False


async def test_a_worker_sends_nothing_to_a_manager_with_another_certificate(tmp_path: Path):
    certificate = self_signed(tmp_path / "tls", Address("127.0.0.1", "127.0.0.1"))
    received: list[object] = []

    async def receive(socket: ServerConnection) -> None:
        received.extend([each async for each in socket])

    greeting = WorkerGreeting(executor="a", secret="s", session_id="s1")
    context: ssl.SSLContext = certificate.context()
    async with serve(receive, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(OSError, match="does not match its fingerprint"):
            async with dial_manager(url, "00:" * 31 + "00", greeting):
                pass
        with pytest.raises(OSError, match="CERTIFICATE"):
            async with dial_manager(url, "", greeting):
                pass
        async with dial_manager(url, certificate.fingerprint, greeting):
            pass
    assert len(received) == 1
