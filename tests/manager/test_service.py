"""The manager's protocol over a real socket, with real session processes."""

import json

import anyio
import pytest

from rookery.core.facts import Event, TaskOpened
from rookery.manager.handlers.router import KINDS
from rookery.manager.service import serve_manager
from rookery.protocol.channels import Channel, ChannelEnded, memory_channels
from rookery.storage.sessions import TaskStore
from support.manager_project import HANDS_ON, PATIENCE, WRITES, Project, Watched
from support.manager_service import Refused, Served, serving, talking

pytestmark = pytest.mark.anyio

SAYS = "\n\n".join(f"Paragraph {n} with *stress* and some more words to say." for n in range(30))
SPEAKS = f"""\
- say: {json.dumps(SAYS)}
  pause: 0.004
  calls:
  - {{tool: attempt_completion, arguments: {{result: "All **done**."}}}}
"""
"""A word at a time."""


async def test_a_client_follows_and_approves_a_session_started_elsewhere(project: Project):
    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
    ):
        listed = await client.list()
        await client.until(lambda: listed.news)
        first = listed.news[0]
        assert (first.get("rows", []), first["order"]) == ([], [])
        assert first["inbox"] == []
        session_id = await watched.supervisor.start(project.start_options(WRITES))
        page = await client.follow(session_id)
        (question,) = await client.until(lambda: listed.last("inbox"))
        assert (question["session_id"], question["ask"]) == (session_id, "tool")
        assert question["digest"]
        await page.until(lambda rows: [row for row in rows if row.get("digest")])
        await client.do(
            "approve_action",
            session_id=session_id,
            ask_ts=question["ts"],
            digest=question["digest"],
        )
        await client.until(lambda: listed.row(session_id).get("state") == "completed")
        await page.until(lambda rows: rows[-1].get("ask") == "completion_result")
        assert (project.path / "made.txt").read_text() == "one\n"
        assert listed.row(session_id).get("unread") is True
        (result,) = await client.until(lambda: listed.last("inbox"))
        assert (result["state"], result["text"]) == ("completed", "Done.")
        assert listed.last("overview")["counts"]["attention"] == 1
        await client.do("mark_read", session_id=session_id)
        await client.until(lambda: listed.row(session_id).get("unread") is False)
        await client.until(lambda: listed.last("inbox") == [])
        assert [reported["change"] for reported in page.news if not reported["change"]] == []


async def test_streamed_text_arrives_in_pieces_and_each_block_renders_once(project: Project):
    """The pieces add up to the text, each block is rendered once, and the list is not sent again
    for each word. A slow client gets several changes in one message."""
    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
        connect() as slow,
    ):
        listed = await client.list()
        session_id = await watched.supervisor.start(
            project.start_options(SPEAKS, auto_approve=True)
        )
        page, other = await client.follow(session_id), await slow.follow(session_id)
        slow.reading = anyio.Event()
        await client.until(lambda: listed.row(session_id).get("state") == "completed")
        await page.until(lambda rows: [r for r in rows if r.get("html_upto") == len(SAYS)])
        (row,) = [row for row in page.rows() if row.get("text") == SAYS]
        assert len(row["html"]) == 30
        assert row["html"][3].startswith("<p>Paragraph 3 with <em>stress</em>")
        blocks = [
            block
            for reported in page.news
            for each in reported["change"].get("changed", ())
            if each["ts"] == row["ts"]
            for block in (*each.get("html", ()), *each.get("html_add", ()))
        ]
        assert blocks == row["html"]
        updates = [reported for reported in page.news if _appends(reported["change"], row["ts"])]
        assert len(updates) > 10
        sent = [reported for reported in listed.news if reported.get("rows")]
        assert len(sent) < 15
        (result,) = [r for r in page.rows() if r.get("say") == "completion_result"]
        assert result["text"] == "All **done**."
        slow.reading.set()
        await other.until(lambda rows: rows and rows[-1].get("ask") == "completion_result")
        assert [r.get("text") for r in other.rows()] == [r.get("text") for r in page.rows()]
        assert len(other.news) < len(page.news)


def _appends(change: dict[str, object], ts: int) -> bool:
    changed = change.get("changed", [])
    assert isinstance(changed, list)
    return any(each["ts"] == ts and "append" in each for each in changed)


LONG = "\n".join(
    f"- calls:\n  - {{tool: read_file, arguments: {{path: made{n}.txt}}}}" for n in range(12)
) + ('\n- calls:\n  - {tool: attempt_completion, arguments: {result: "Done."}}\n')


async def test_only_the_window_is_sent_and_it_extends_backwards(project: Project):
    async with project.supervised() as watched, serving(project, watched) as connect:
        session_id = await watched.supervisor.start(project.start_options(LONG, auto_approve=True))
        shown = await watched.at(session_id, "completed")
        everything = [row.ts for row in shown.view.messages]
        async with connect() as client:
            page = await client.follow(session_id, tail=5)
            await page.until(lambda rows: len(rows) == 5)
            assert [row["ts"] for row in page.rows()] == everything[-5:]
            assert page.earlier == len(everything) - 5
            await client.call("widen", follow_id=page.follow_id, most=7)
            await page.until(lambda rows: len(rows) == 12)
            assert (page.earlier, [r["ts"] for r in page.rows()]) == (
                len(everything) - 12,
                everything[-12:],
            )
            await client.call("widen", follow_id=page.follow_id, most=1000)
            await page.until(lambda rows: len(rows) == len(everything))
            assert page.earlier == 0
            assert page.parts()["closed"] is False
            await watched.supervisor.send(session_id, "go on")
            await page.until(lambda rows: rows[-1]["ts"] > everything[-1])
            await client.call("unfollow", follow_id=page.follow_id)
            with pytest.raises(Refused):
                await client.call("widen", follow_id=page.follow_id, most=5)


async def test_a_stored_session_can_be_followed_and_removing_it_ends_that(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(
            project.start_options(WRITES, auto_approve=True)
        )
        await watched.at(session_id, "completed")
    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
    ):
        listed = await client.list()
        await client.until(lambda: listed.row(session_id).get("state") == "completed")
        page = await client.follow(session_id)
        await page.until(lambda rows: [r for r in rows if r.get("text") == "Written."])
        assert project.processes() == {}
        await client.do("archive_session", session_id=session_id)
        await client.until(lambda: listed.row(session_id).get("archived"))
        assert listed.last("order") == [session_id]
        await client.do("remove_session", session_id=session_id)
        await client.until(lambda: client.reported("ended", page.follow_id))
        await client.until(lambda: listed.rows() == {})
        with pytest.raises(Refused, match="No such session"):
            await client.do("cancel_session", session_id=session_id)
        with pytest.raises(Refused, match="No such session"):
            await client.follow(session_id)


async def test_a_terminal_session_is_found_on_connect_list_or_follow(project: Project):
    def in_a_terminal(number: int) -> str:
        session_id = f"{number:08}-0000-4000-8000-000000000000"
        opened = TaskOpened(text="Say hello", mode="code", workspace=str(project.path))
        journal = TaskStore(project.places).create(session_id)
        journal.write(Event(1, 0, number, opened))
        journal.close()
        return session_id

    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
    ):
        first = in_a_terminal(1)
        listed = await client.list()
        await client.until(lambda: listed.row(first).get("state") == "paused")
        second = in_a_terminal(2)
        await client.call("refresh")
        await client.until(lambda: listed.row(second).get("state") == "paused")
        page = await client.follow(in_a_terminal(3))
        await page.until(lambda rows: [row for row in rows if row.get("text") == "Say hello"])


async def test_a_subtask_can_be_followed_and_its_questions_are_in_the_inbox(project: Project):
    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
    ):
        session_id = await watched.supervisor.start(project.start_options(HANDS_ON))
        listed, root = await client.list(), await client.follow(session_id)
        (first,) = await client.until(lambda: listed.last("inbox"))
        await client.do(
            "approve_action", session_id=session_id, ask_ts=first["ts"], digest=first["digest"]
        )
        row = await root.until(lambda rows: next((r for r in rows if r.get("task_id")), None))
        child = await client.follow(session_id, task_id=row["task_id"])
        await child.until(lambda rows: [r for r in rows if r.get("digest")])
        second = await client.until(
            lambda: next((q for q in listed.last("inbox") if q["ts"] != first["ts"]), None)
        )
        assert (first["task_id"], second["task_id"]) == (session_id, row["task_id"])
        await client.do(
            "approve_action", session_id=session_id, ask_ts=second["ts"], digest=second["digest"]
        )
        await watched.result(session_id, "Done.")
        await child.until(lambda rows: "Part one is done." in [r.get("text") for r in rows])
        again = await client.follow(session_id, task_id=row["task_id"])
        await again.until(lambda rows: "Part one is done." in [r.get("text") for r in rows])
        other = await client.follow(session_id, task_id="00000000-0000-0000-0000-0")
        (end,) = await client.until(lambda: client.reported("ended", other.follow_id))
        assert end["error"]["message"].startswith("No task")


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("do", {"kind": "moonrise"}, "No such request: 'moonrise'"),
    ("do", {"kind": "cancel_session"}, "malformed"),
    (
        "do",
        {"kind": "start_sessions", "prompt": "Hi", "auto_aprove": False},
        "start_sessions has no field 'auto_aprove'; did you mean 'auto_approve'",
    ),
    ("follow_list", {"archived": True}, "follow_list has no field 'archived'"),
    ("follow_session", {"session_id": "x", "tial": 3}, "did you mean 'tail'"),
    ("follow_session", {"session_id": 7}, "session_id"),
    ("follow_session", {"session_id": "x", "tail": True}, "tail"),
    ("unfollow", {}, "follow_id"),
    ("widen", {"follow_id": 9}, "follow_id"),
    ("dance", {}, "No such method"),
]


async def test_an_impossible_request_is_refused_with_a_reason(project: Project):
    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
    ):
        for method, params, said in REFUSED:
            with pytest.raises(Refused, match=said):
                await client.call(method, **params)


async def test_the_number_of_follows_per_client_is_limited(project: Project):
    async with project.supervised() as watched, serving(project, watched) as connect:
        session_id = await watched.supervisor.start(project.start_options(WRITES))
        async with connect() as client:
            pages = [await client.follow(session_id) for _ in range(16)]
            with pytest.raises(Refused, match="more than 16"):
                await client.follow(session_id)
            await client.call("unfollow", follow_id=pages[0].follow_id)
            await client.follow(session_id)
            for _ in range(48):
                await client.list()
            with pytest.raises(Refused, match="more than 64"):
                await client.list()


async def test_initialize_needs_the_token_and_lists_the_requests(project: Project):
    async with project.supervised() as watched:
        for first in ({"protocol": 1}, {"protocol": 1, "token": "wrong"}):
            with memory_channels() as (near, far):
                async with anyio.create_task_group() as group:
                    group.start_soon(_serve_once, watched, far)
                    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": first}
                    await near.send([json.dumps(message).encode()])
                    answer = json.loads(await near.receive())
                    assert answer["error"]["message"] == "The token is missing or wrong."
                    with anyio.fail_after(PATIENCE), pytest.raises(ChannelEnded):
                        await near.receive()
        with memory_channels() as (near, far):
            async with anyio.create_task_group() as group:
                group.start_soon(_serve_once, watched, far)
                async with talking(near) as client:
                    reported = await client.call("initialize", protocol=1, token="right")
                group.cancel_scope.cancel()
    assert set(reported["requests"]) <= set(KINDS)
    assert {"list_sessions", "approve_action", "switch_session"} <= set(reported["requests"])


async def _serve_once(watched: Watched, far: Channel) -> None:
    await serve_manager(Served(watched.supervisor), far, token="right")
    await far.aclose()
