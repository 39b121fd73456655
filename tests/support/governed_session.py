"""The real command in a workspace with intents: a scripted model, and scripted answers of a user.

    with governed.attended([select()], [write("src/api/user.py")], [finish()]) as person:
        seen = person.follow("task")          # the user's answer to each question, in turn
    assert seen.results[1] == "..."           # the result of each call, as the model got it
    assert governed.kinds() == [...]          # the records in the ledger

A run that is not interactive is `governed.alone(...)`.
"""

import json
import os
import select as io
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from llm_server import Answer as Said
from llm_server import LlmServer, call, finish
from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.commands import Answer, Command, Condense, OpenTask, ReopenTask
from rookery.core.facts import Asked, Event, Fact
from rookery.governance.layout import Layout
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.state_files import known_heads
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verification import audit
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import PROTOCOL, command_to_json, event_from_json
from support.terminal_session import A_MOMENT, PATIENCE, Installed, at
from support.warm_start import PipedProcess, start_warm

INTENTS = """\
schema_version: 1
active_intents:
  - id: INT-001
    name: JWT authentication migration
    status: IN_PROGRESS
    owned_scope:
      - "src/auth/**"  # all of it
  - id: INT-002
    name: User interface
    status: PENDING
    owned_scope: ["ui/**"]
"""
FILE = ".orchestration/active_intents.yaml"
Entry: TypeAlias = str | Callable[[Asked], str]
"""An answer: yes, no, `no because ...`, task, expand, halt, or text after `message`. An empty
one leaves the question unanswered."""
UNKNOWN = ("--governance-allow", "unknown")
"""Options that allow commands whose writes cannot be determined."""
CHOICES = {"task": "yes", "expand": "yes", "halt": "no"}


def intents(*, scope: Sequence[str] = ("src/auth/**",), policy: str = "", more: str = "") -> str:
    """An intent file with INT-001 in progress. `policy` and `more` are lines of YAML."""
    wanted = f"policy:\n{_indented(policy, 2)}" if policy else ""
    return (
        f"schema_version: 1\n{wanted}active_intents:\n"
        "  - id: INT-001\n    name: JWT authentication migration\n    status: IN_PROGRESS\n"
        f"    owned_scope: {json.dumps(list(scope), ensure_ascii=False)}\n{_indented(more, 4)}"
    )


def _indented(lines: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in lines.splitlines())


def choose(intent_id: str = "INT-001") -> Any:
    return call("select_active_intent", intent_id=intent_id)


def write(path: str, content: str = "new\n") -> Any:
    return call("write_to_file", path=path, content=content)


def read(path: str) -> Any:
    return call("read_file", path=path)


def patch(*lines: str) -> Any:
    return call("apply_patch", patch="\n".join(["*** Begin Patch", *lines, "*** End Patch", ""]))


def run(command: str) -> Any:
    return call("execute_command", command=command, cwd=None, timeout=None)


def wait() -> Any:
    """A call that lets the user do something before the model continues."""
    return call("ask_followup_question", question="Ready?", follow_up=[{"text": "Yes"}])


def new_task(words: str) -> Any:
    return call("new_task", mode="code", message=words)


def reasons(asked: Asked) -> list[str]:
    """The codes of the reasons for a question."""
    return [each.code for each in asked.governance.reasons] if asked.governance else []


class Heard:
    """The requests that the model received in a run."""

    def __init__(self, server: LlmServer) -> None:
        self._server = server

    @property
    def results(self) -> list[str]:
        """The result of each call, in order."""
        found: dict[str, str] = {}
        for request in self._server.requests:
            for message in request.body.get("messages", ()):
                for block in message["content"] if isinstance(message["content"], list) else ():
                    if block["type"] == "tool_result":
                        found.setdefault(block["tool_use_id"], _text(block["content"]))
        return list(found.values())

    def refusal(self, number: int) -> dict[str, Any]:
        """The structured error in the result of a call."""
        text = self.results[number]
        try:
            error: dict[str, Any] = json.loads(text)
        except ValueError:
            raise AssertionError(f"Call {number} was not refused: {text}") from None
        return error

    def code(self, number: int) -> str:
        """The code of a call's refusal; empty if governance did not refuse it."""
        try:
            return str(json.loads(self.results[number]).get("code", ""))
        except (ValueError, AttributeError):
            return ""

    @property
    def codes(self) -> list[str]:
        return [self.code(number) for number in range(len(self.results))]

    @property
    def requests(self) -> list[str]:
        """The whole conversation, as sent in each request."""
        return [
            json.dumps(each.body.get("messages"), ensure_ascii=False)
            for each in self._server.requests
        ]

    @property
    def tools(self) -> list[str]:
        """The tools that the model was offered."""
        return [each["name"] for each in self._server.requests[0].body["tools"]]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)


class Alone(Heard):
    """Result of a run that was not interactive."""

    def __init__(self, server: LlmServer, done: "subprocess.CompletedProcess[str]") -> None:
        super().__init__(server)
        self.exit_code = done.returncode
        self.stderr = done.stderr
        self.output: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}

    @property
    def governance(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.output.get("governance")
        return found


class Followed(Heard):
    """Result of a run with a user."""

    def __init__(self, server: LlmServer, task_id: str, events: list[Event]) -> None:
        super().__init__(server)
        self.task_id = task_id
        self.facts = [event.fact for event in events]
        self.seq = events[-1].seq

    @property
    def questions(self) -> list[Asked]:
        """The questions about a call."""
        return [each for each in self.facts if isinstance(each, Asked) and each.call_id]

    def of(self, kind: type[Fact]) -> list[Any]:
        return [each for each in self.facts if isinstance(each, kind)]


class Row(NamedTuple):
    """A call of the model, the user's answer if a question is expected, and the code of the
    refusal that the model gets."""

    call: Any
    answer: Entry = ""
    code: str = ""


class Governed:
    """The installed command, and a workspace with intents."""

    def __init__(self, rookery: Installed, text: str | None = INTENTS) -> None:
        self.rookery = rookery
        self.root = rookery.workspace.resolve()
        if text is not None:
            self.put(FILE, text)

    def put(self, path: str, text: str = "old\n") -> Path:
        at = self.root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text, encoding="utf-8")
        return at

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def there(self, path: str) -> bool:
        return (self.root / path).exists()

    def program(self, name: str, text: str) -> None:
        self.put(name, f"#!/bin/sh\n{text}\n").chmod(0o755)

    def until_there(self, path: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.there(path):
            assert time.monotonic() < deadline, f"{path} never came."
            time.sleep(A_MOMENT)

    def settings(self, text: str) -> None:
        folder = self.rookery.home / "config"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.toml").write_text(text, encoding="utf-8")

    # ── running ─────────────────────────────────────────────────────────────────────────

    def alone(self, *answers: Said, flags: Sequence[str] = ()) -> Alone:
        """Run without a user. The finishing answer is added if it is missing."""
        with LlmServer(*answers, [finish()]) as server:
            given = ["-p", "--output-format", "json", *at(server), *flags, "go"]
            return Alone(server, self.rookery.run(*given))

    @contextmanager
    def started(self, server: LlmServer, *flags: str) -> "Iterator[PipedProcess | Popen[bytes]]":
        """Start the command without a user; it is killed at the end if it still runs."""
        with self.rookery.piped("-p", *at(server), *flags, "go") as process:
            assert process.stdin
            process.stdin.close()
            try:
                yield process
            finally:
                process.kill()

    def attended(self, *answers: Said, flags: Sequence[str] = ("-y",)) -> "Person":
        """Run with a user who answers governance questions and allows everything else."""
        return Person(self, answers, flags)

    def play(
        self,
        *answers: Said,
        book: Sequence[Entry] = (),
        watch: Callable[[Fact], object] = lambda fact: None,
        flags: Sequence[str] = ("-y",),
    ) -> Followed:
        """Run one task with scripted answers; `watch` gets its events. The finishing answer is
        added if it is missing."""
        with self.attended(*answers, [finish()], flags=flags) as person:
            return person.follow(*book, watch=watch)

    def play_rows(
        self, rows: Mapping[str, Row], flags: Sequence[str] = ("-y",)
    ) -> tuple[Followed, dict[str, Asked]]:
        """Run one task that makes the call of each row, after selecting INT-001, and return the
        questions by row. Every row must be refused with its code, and asked about if it has an
        answer."""
        calls = [[row.call] for row in rows.values()]
        book = [row.answer for row in rows.values() if row.answer]
        reported = self.play([choose()], *calls, book=book, flags=flags)
        codes = dict(zip(rows, reported.codes[1:], strict=True))
        assert codes == {name: row.code for name, row in rows.items()}, reported.results
        asked = [name for name, row in rows.items() if row.answer]
        return reported, dict(zip(asked, reported.questions, strict=True))

    def cli(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.rookery.run(*arguments)

    # ── the ledger ──────────────────────────────────────────────────────────────────────

    @property
    def records(self) -> list[TracedRecord]:
        """All records of the ledger, except those about itself."""
        found = oldest(self.root / ".orchestration")
        return [each for each in found if each.kind not in ("stream_start", "checkpoint", "seal")]

    def of(self, kind: str) -> list[TracedRecord]:
        return [each for each in self.records if each.kind == kind]

    def kinds(self) -> list[str]:
        return [each.kind for each in self.records]

    def is_whole(self) -> bool:
        """Whether the ledger matches this machine's records of it."""
        places = find_places(self.rookery.environ)
        heads = known_heads(Layout(self.root, self.root), places.governance)
        report = audit(self.root / ".orchestration", known=heads.read(), keys=heads.trace_keys)
        assert report.whole, report.findings
        return True


class Person:
    """A user attached to a command that serves tasks on its two pipes."""

    def __init__(self, governed: Governed, answers: Sequence[Said], flags: Sequence[str]) -> None:
        self._governed = governed
        self._flags = flags
        self._numbers = count(1)
        self._read = b""
        self._notices: list[dict[str, Any]] = []
        self.server = LlmServer(*answers)

    def __enter__(self) -> Self:
        self.server.__enter__()
        rookery = self._governed.rookery
        self._complaints = rookery.workspace.parent / f"stderr-{uuid.uuid4().hex}"
        stdin, self._in = os.pipe()
        self._out, stdout = os.pipe()
        arguments = ["serve", "--stdio", *self._flags, *at(self.server)]
        with open(self._complaints, "wb") as stderr:
            streams = (stdin, stdout, stderr.fileno())
            self.process = start_warm(
                arguments, rookery.environ, str(rookery.workspace), streams=streams
            )
        os.close(stdin)
        os.close(stdout)
        self._request("initialize", {"protocol": PROTOCOL, "client": {"name": "t", "version": "1"}})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._in)
        try:
            if error is not None:
                self.process.kill()
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            os.close(self._out)
            self.server.__exit__(kind, error, trace)
        if error is None:
            complaints = self._complaints.read_text(encoding="utf-8")
            assert (code, complaints) == (0, ""), complaints

    def follow(
        self,
        *book: Entry,
        text: str = "go",
        again: Followed | None = None,
        watch: Callable[[Fact], object] = lambda fact: None,
    ) -> Followed:
        """Open or resume a task, and answer its questions until it is closed. `watch` gets all
        events."""
        left = list(book)
        self._task_id = again.task_id if again else str(uuid.uuid4())
        if again:
            self._send(ReopenTask(task_id=self._task_id))
        else:
            self._send(OpenTask(task_id=self._task_id, text=text))
        after = again.seq if again else 0
        params = {"task_id": self._task_id, "after": after, "as": "events"}
        number = self._request("follow", params)["follow_id"]
        events: list[Event] = []
        while (event := self._next_event(number)) is not None:
            events.append(event)
            watch(event.fact)
            if isinstance(event.fact, Asked) and _waits(event.fact):
                self._answer(event.fact, left)
        assert not left, f"No question came for the answers {left}."
        return Followed(self.server, self._task_id, events)

    def condense_soon(self) -> None:
        self._send(Condense(task_id=self._task_id))

    def condense(self) -> None:
        """Condense the task, and wait until that is done."""
        self.condense_soon()
        while not any(_is_condensed(notice) for notice in self._notices):
            self._notices.append(self._next_message())

    def _answer(self, asked: Asked, book: list[Entry]) -> None:
        if asked.ask is AskKind.COMPLETION_RESULT:
            said = "yes"
        else:
            assert book, f"Unexpected questions: {asked}"
            entry = book.pop(0)
            said = entry if isinstance(entry, str) else entry(asked)
        if not said:
            return
        word, _, text = said.partition(" ")
        self._send(
            Answer(
                task_id=self._task_id,
                ask_id=asked.ask_id,
                reply=CHOICES.get(word, word),  # type: ignore[arg-type]
                text=text,
                digest=asked.digest,
                choice=word if word in CHOICES else None,  # type: ignore[arg-type]
            )
        )

    def _send(self, command: Command) -> None:
        self._request("send", json.loads(command_to_json(command)))

    def _request(self, method: str, params: Any) -> Any:
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(self._in, json.dumps(message).encode() + b"\n")
        while True:
            received = self._next_message()
            if received.get("id") != number:
                self._notices.append(received)
                continue
            assert "error" not in received, received
            return received.get("result")

    def _next_event(self, number: int) -> Event | None:
        """The next event of a task; None once it is closed."""
        while True:
            received = self._notices.pop(0) if self._notices else self._next_message()
            params = received.get("params", {})
            if params.get("follow_id") != number:
                continue
            if received["method"] == "ended":
                return None
            return event_from_json(json.dumps(params["event"]))

    def _next_message(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._read:
            wait = max(0.0, deadline - time.monotonic())
            ready, _, _ = io.select([self._out], [], [], wait)
            more = os.read(self._out, 1 << 20) if ready else b""
            assert more, f"Nothing more came. {self._complaints.read_text(encoding='utf-8')}"
            self._read += more
        line, self._read = self._read.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found


def _is_condensed(notice: dict[str, Any]) -> bool:
    return bool(notice.get("params", {}).get("event", {}).get("kind") == "condensed")


def _waits(asked: Asked) -> bool:
    return CATEGORY[asked.ask] is not AskCategory.NON_BLOCKING
