"""A sample task, and a script that writes it and can be killed anywhere."""

import sys
from collections.abc import Iterable
from pathlib import Path

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Change,
    CompletionOffered,
    Event,
    Fact,
    Noted,
    RequestStarted,
    TaskClosed,
    TaskOpened,
    TaskReopened,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    next_event,
)
from rookery.engine.ports.hooks import LogStore
from rookery.errors import StorageError
from rookery.storage.journal import Journal
from support.log_fillings import filling

LARGE = "a long line of output, ünïcode and all\n" * 3000


def sample_facts(workspace: str = "/home/me/space") -> list[Fact]:
    """Two turns with every kind of fact that must not be lost."""
    read = ToolCall(id="c1", name="execute_command", arguments={"command": "make test"})
    done = ToolCall(id="c2", name="attempt_completion", arguments={"result": "It is fixed."})
    return [
        TaskOpened(text="Fix the parser", workspace=workspace),
        RequestStarted(request_id="r1", model="m"),
        AssistantSpoke(
            request_id="r1",
            blocks=(Text(text="Let me run the tests."), read),
            usage=Usage(tokens_in=100, tokens_out=10, cost=0.25),
        ),
        Asked(ask_id="q1", ask=AskKind.COMMAND, text="make test", call_id="c1"),
        Answered(ask_id="q1", ask=AskKind.COMMAND, reply="yes"),
        ToolStarted(
            call_id="c1",
            tool="execute_command",
            title="Run make test",
            command="make test",
            changes=(Change(path="a.txt"),),
        ),
        UserSpoke(message_id="m1", text="mind the gap"),
        TodosChanged(todos=(Todo(id="t", content="test"),)),
        ToolFinished(call_id="c1", text=LARGE, exit_code=0),
        RequestStarted(request_id="r2", model="m"),
        AssistantSpoke(request_id="r2", blocks=(done,), usage=Usage(tokens_in=200, tokens_out=20)),
        ToolStarted(call_id="c2", tool="attempt_completion", title="Complete"),
        CompletionOffered(result="It is fixed."),
        ToolFinished(call_id="c2", text="offered"),
        TaskClosed(),
    ]


def numbered(facts: Iterable[Fact], last: Event | None = None) -> list[Event]:
    events: list[Event] = []
    for fact in facts:
        last = next_event(last, fact, now=1_700_000_000_000)
        events.append(last)
    return events


def write_all(journal: LogStore, facts: Iterable[Fact], last: Event | None = None) -> list[Event]:
    events = numbered(facts, last)
    for event in events:
        journal.write(event)
    return events


def store(folder: Path, facts: Iterable[Fact]) -> list[Event]:
    journal = Journal.create(folder)
    try:
        return write_all(journal, facts)
    finally:
        journal.close()


def main() -> int:
    """create PLACE NAME: write the sample task, and print each event's number once it is written.
    insist PLACE NAME: the same, but retry an event that fails. resume PLACE NAME: reopen it as
    the engine would after a kill. hold PLACE NAME: keep it open until input."""
    what, name = sys.argv[1], sys.argv[3]
    logs = filling(sys.argv[2])
    make = {"create": logs.create, "insist": logs.create, "resume": logs.take_over}
    journal = make.get(what, logs.open)(name)
    if what in {"create", "insist"}:
        for event in numbered(sample_facts()):
            try:
                journal.write(event)
            except StorageError:
                if what == "create":
                    raise
                journal.write(event)
            print(event.seq, flush=True)
    elif what == "resume":
        noted = [Noted(text=journal.recovered)] if journal.recovered else []
        write_all(journal, [*noted, TaskReopened()], journal.read().events[-1])
    else:
        print("open", flush=True)
        sys.stdin.readline()
    journal.close()
    logs.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
