"""The real command in a workspace with intents: a scripted model, and a person who follows a book.

    with governed.attended([select()], [write("src/api/user.py")], [finish()]) as person:
        told = person.follow("task")          # what the person says to each question, in turn
    assert told.results[1] == "..."           # what the model was told about each of its calls
    assert governed.kinds() == [...]          # what the ledger says of it

A run with nobody there is `governed.alone(...)`.
"""

import json
import os
import select as io
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from llm_server import Answer as Said
from llm_server import LlmServer, call, finish
from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.commands import Answer, Command, Condense, OpenTask, ReopenTask
from rookery.core.facts import Asked, Event, Fact
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.traced import TracedRecord
from rookery.protocol.codec import PROTOCOL, command_to_json, event_from_json
from support.terminal_session import PATIENCE, Installed, at
from support.warm_start import start_warm

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
"""What a person says: yes, no, `no because ...`, task, expand, halt, or words after `message`. Who
says nothing is asked something else."""
CHOICES = {"task": "yes", "expand": "yes", "halt": "no"}


def intents(*, scope: Sequence[str] = ("src/auth/**",), policy: str = "", more: str = "") -> str:
    """A file with INT-001, which is in progress. `policy` and `more` are lines of YAML."""
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
    """The model has the person do something before it goes on."""
    return call("ask_followup_question", question="Ready?", follow_up=[{"text": "Yes"}])


class Heard:
    """What the model was told, in all requests of a run."""

    def __init__(self, server: LlmServer) -> None:
        self._server = server

    @property
    def results(self) -> list[str]:
        """What came of each call, in the order in which they were made."""
        found: dict[str, str] = {}
        for request in self._server.requests:
            for message in request.body.get("messages", ()):
                for block in message["content"] if isinstance(message["content"], list) else ():
                    if block["type"] == "tool_result":
                        found.setdefault(block["tool_use_id"], _text(block["content"]))
        return list(found.values())

    def refusal(self, number: int) -> dict[str, Any]:
        """The structured error that a call was answered with."""
        text = self.results[number]
        try:
            error: dict[str, Any] = json.loads(text)
        except ValueError:
            raise AssertionError(f"Call {number} was not refused: {text}") from None
        return error

    def code(self, number: int) -> str:
        """Of the refusal of a call; nothing if it was not refused by governance."""
        try:
            return str(json.loads(self.results[number]).get("code", ""))
        except (ValueError, AttributeError):
            return ""

    @property
    def codes(self) -> list[str]:
        return [self.code(number) for number in range(len(self.results))]

    @property
    def requests(self) -> list[str]:
        """The whole conversation, as it was in each request."""
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
    """A run that nobody looked at."""

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
    """A task to which somebody answered."""

    def __init__(self, server: LlmServer, task_id: str, events: list[Event]) -> None:
        super().__init__(server)
        self.task_id = task_id
        self.facts = [event.fact for event in events]
        self.seq = events[-1].seq

    @property
    def questions(self) -> list[Asked]:
        """Those about a call."""
        return [each for each in self.facts if isinstance(each, Asked) and each.call_id]

    def of(self, kind: type[Fact]) -> list[Any]:
        return [each for each in self.facts if isinstance(each, kind)]


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

    def settings(self, text: str) -> None:
        folder = self.rookery.home / "config"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.toml").write_text(text, encoding="utf-8")

    # ── running ─────────────────────────────────────────────────────────────────────────

    def alone(self, *answers: Said, flags: Sequence[str] = ()) -> Alone:
        """With nobody to be asked. The last answer need not finish: that is added."""
        with LlmServer(*answers, [finish()]) as server:
            given = ["-p", "--output-format", "json", *at(server), *flags, "go"]
            return Alone(server, self.rookery.run(*given))

    def attended(self, *answers: Said, flags: Sequence[str] = ("-y",)) -> "Person":
        """Somebody answers what governance asks; whatever else would be asked is allowed."""
        return Person(self, answers, flags)

    def play(
        self,
        *answers: Said,
        book: Sequence[Entry] = (),
        watch: Callable[[Fact], object] = lambda fact: None,
        flags: Sequence[str] = ("-y",),
    ) -> Followed:
        """One task, to which somebody answers by the book while they `watch` what happens. The
        last answer need not finish: that is added."""
        with self.attended(*answers, [finish()], flags=flags) as person:
            return person.follow(*book, watch=watch)

    def cli(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.rookery.run(*arguments)

    # ── the ledger ──────────────────────────────────────────────────────────────────────

    @property
    def records(self) -> list[TracedRecord]:
        """All that is in the ledger but what it says of itself."""
        found = oldest(self.root / ".orchestration")
        return [each for each in found if each.kind not in ("stream_start", "checkpoint", "seal")]

    def of(self, kind: str) -> list[TracedRecord]:
        return [each for each in self.records if each.kind == kind]

    def kinds(self) -> list[str]:
        return [each.kind for each in self.records]

    def is_whole(self) -> bool:
        done = self.cli("trace", "verify")
        assert done.returncode == 0, done.stdout + done.stderr
        return True


class Person:
    """Looks on while the command serves tasks on its two pipes, and answers."""

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
        """Open a task, or go on with one, and answer its questions until it is closed. `watch`
        is shown all that happens."""
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
        assert not left, f"Nobody asked what should be answered with {left}."
        return Followed(self.server, self._task_id, events)

    def condense_soon(self) -> None:
        self._send(Condense(task_id=self._task_id))

    def condense(self) -> None:
        """Have the task forget what was said word for word, and wait until it has."""
        self.condense_soon()
        while not any(_is_condensed(notice) for notice in self._notices):
            self._notices.append(self._next_message())

    def _answer(self, asked: Asked, book: list[Entry]) -> None:
        if asked.ask is AskKind.COMPLETION_RESULT:
            said = "yes"
        else:
            assert book, f"Nobody was to be asked: {asked}"
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
            heard = self._next_message()
            if heard.get("id") != number:
                self._notices.append(heard)
                continue
            assert "error" not in heard, heard
            return heard.get("result")

    def _next_event(self, number: int) -> Event | None:
        """The next event of a task; None once it is closed."""
        while True:
            heard = self._notices.pop(0) if self._notices else self._next_message()
            params = heard.get("params", {})
            if params.get("follow_id") != number:
                continue
            if heard["method"] == "ended":
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
