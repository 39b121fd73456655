"""Stored sessions, for tests of the commands that show, copy and remove them."""

import json
import os
from pathlib import Path

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    Change,
    ChildBegan,
    CompletionOffered,
    Event,
    Fact,
    RequestStarted,
    TaskClosed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
)
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore

PARENT = "aaaaaaaa-0000-4000-8000-000000000001"
CHILD = "bbbbbbbb-0000-4000-8000-000000000002"
GRANDCHILD = "cccccccc-0000-4000-8000-000000000003"
OTHER = "dddddddd-0000-4000-8000-000000000004"
DIFF = "@@ -1 +1 @@\n-world\n+moon"
FACTS_OF_PARENT = 13


def store() -> TaskStore:
    return TaskStore(find_places(os.environ))


def keep(task_id: str, *facts: Fact, ts: int = 1_700_000_000_000) -> None:
    journal = store().create(task_id)
    for seq, fact in enumerate(facts, 1):
        journal.write(Event(seq, 0, ts + seq, fact))
    journal.close()


def keep_family(here: Path) -> None:
    """A session that edited a file and ran a command, with a child and a grandchild."""
    where = str(here)
    edit = {"tool": "appliedDiff", "path": "a.txt", "content": DIFF, "diffStats": {}}
    keep(
        PARENT,
        TaskOpened(text="Change the world", workspace=where),
        RequestStarted(request_id="r1", model="m"),
        AssistantSpoke(
            request_id="r1",
            blocks=(
                Text(text="I change it."),
                ToolCall(id="c1", name="apply_diff", arguments={"path": "a.txt"}),
                ToolCall(id="c2", name="execute_command", arguments={"command": "cat a.txt"}),
                ToolCall(id="c3", name="new_task", arguments={"mode": "ask"}),
            ),
            usage=Usage(tokens_in=1200, tokens_out=30, cost=0.0125),
        ),
        ToolStarted(
            call_id="c1",
            tool="apply_diff",
            title="Edit a.txt",
            text=json.dumps(edit),
            changes=(Change(path="a.txt", before="1", after="2"),),
        ),
        ToolFinished(call_id="c1", text="done"),
        ToolStarted(
            call_id="c2",
            tool="execute_command",
            title="Run cat a.txt",
            ask=AskKind.COMMAND,
            command="cat a.txt",
        ),
        ToolFinished(call_id="c2", text="hello\n```\nmoon", exit_code=0),
        ToolStarted(
            call_id="c3",
            tool="new_task",
            title="Start a sub-task in ask mode",
            text=json.dumps({"tool": "newTask", "content": "Look at it."}),
            child=CHILD,
        ),
        ChildBegan(call_id="c3", task_id=CHILD),
        ToolFinished(call_id="c3", text="The sub-task is done. Its result:\nfine"),
        RequestStarted(request_id="r2", model="m"),
        CompletionOffered(result="It says **moon** now."),
        TaskClosed(),
    )
    keep(
        CHILD,
        TaskOpened(text="Look at it.", workspace=where, parent=PARENT, mode="ask", depth=1),
        CompletionOffered(result="fine"),
        TaskClosed(),
        ts=1_700_000_001_000,
    )
    keep(
        GRANDCHILD,
        TaskOpened(text="Look closer.", workspace=where, parent=CHILD, mode="ask", depth=2),
        ts=1_700_000_002_000,
    )
    keep(OTHER, TaskOpened(text="Elsewhere", workspace="/other/folder"), ts=1_700_000_003_000)
