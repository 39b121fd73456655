"""Sessions with long logs: the last rows arrive first and end up correct."""

import os
import time
import uuid

import pytest

from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    Event,
    Fact,
    RequestStarted,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
)
from rookery.core.folds.view import View, see
from rookery.manager.sessions.session_record import SessionRecord
from rookery.manager.sessions.session_states import SessionState, SessionStatus
from rookery.manager.sessions.stored_session import glimpse_of
from support.manager_project import Project
from support.manager_service import serving

pytestmark = pytest.mark.anyio

REQUESTS = 3334 if os.environ.get("ROOKERY_TORTURE") else 1000
"""With three rows each. A third of those already takes several readings."""
SAID = "Some *text*.\n\n- one\n- two\n\n```python\ndef f(x):\n    return x + 1\n```\n"


def log_of(requests: int, *more: Fact) -> list[Event]:
    facts: list[Fact] = [TaskOpened(text="Do it", mode="code", workspace="/x")]
    for n in range(requests):
        call = ToolCall(id=f"c{n}", name="read_file", arguments={"path": "a"})
        said = AssistantSpoke(
            request_id=f"r{n}",
            blocks=(Text(text=f"{SAID}{n}"), call),
            usage=Usage(tokens_in=10, tokens_out=5),
        )
        facts += [
            RequestStarted(request_id=f"r{n}", model="m"),
            said,
            ToolStarted(call_id=f"c{n}", tool="read_file", title="Read a", ask="tool"),
            ToolFinished(call_id=f"c{n}", text="x" * 300),
        ]
    return [Event(seq, 0, 1000 + seq * 5, fact) for seq, fact in enumerate((*facts, *more), 1)]


def store(project: Project, events: list[Event]) -> str:
    """A completed session with this log."""
    session_id = str(uuid.uuid4())
    journal = project.tasks.create(session_id)
    for event in events:
        journal.write(event)
    journal.close()
    return session_id


def kept(session_id: str) -> SessionRecord:
    return SessionRecord(
        session_id=session_id,
        label="Old",
        status=SessionStatus.DONE,
        state=SessionState.COMPLETED,
        saw_session_created=True,
        announced=True,
    )


@pytest.mark.parametrize("rewound", [False, True])
async def test_the_last_rows_of_a_long_session_are_sent_first(project: Project, rewound: bool):
    events = log_of(330, *([Rewound(to=1200)] if rewound else []))
    view = View()
    for event in events:
        view = see(view, event)
    session_id = store(project, events)
    assert (glimpse_of(events) is None) is rewound
    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
    ):
        watched.supervisor.add(kept(session_id))
        page = await client.follow(session_id, tail=50)
        await client.call("widen", follow_id=page.follow_id, most=30)
        await page.until(lambda rows: len(rows) == 80)
        assert page.earlier == len(view.messages) - 80
        assert [(row["ts"], row.get("text")) for row in page.rows()] == [
            (row.ts, row.text) for row in view.messages[-80:]
        ]
        assert page.parts()["usage"]["tokens_in"] == view.usage.tokens_in
        await page.until(
            lambda rows: all("html" in row for row in rows if row.get("say") == "text")
        )


async def test_a_long_session_opens_before_all_of_it_is_read(project: Project):
    session_id = store(project, log_of(REQUESTS))
    async with (
        project.supervised() as watched,
        serving(project, watched) as connect,
        connect() as client,
    ):
        watched.supervisor.add(kept(session_id))
        listed = await client.list()
        await client.until(lambda: listed.news)
        begin = time.process_time()  # test machines are busy
        page = await client.follow(session_id)
        await page.until(lambda rows: len(rows) == 200)
        assert time.process_time() - begin < 1.5
        first = page.news[0]["earlier"]
        await client.until(lambda: page.earlier == 3 * REQUESTS + 1 - 200)
        assert first != page.earlier
