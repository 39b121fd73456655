"""Questions at a real pseudo-terminal, and how typed lines answer them."""

import io
import json
import os
import pty
import termios
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.facts import Asked
from rookery.core.modes import Level
from rookery.plain.keyboard import Keyboard
from rookery.plain.prompter import LEFT_AT_PROMPT, Prompter
from rookery.plain.screen import Screen
from rookery.protocol.attend import Leave, Response, Say
from rookery.protocol.outcomes import DECIDE_YOURSELF
from support.each_row import each_row

pytestmark = pytest.mark.anyio

LEAVE = Leave(LEFT_AT_PROMPT, code="task_aborted")
CTRL_D = "\x04"
ALLOW = "Approve? [y/n, or say why not] "
OR_ALWAYS = "Approve? [y/n/a, or say why not] "
RULE = "exactly this command in /work, for 30 days: make"
SURE = f"Always allow {RULE}? [y/n] "


class SignallingKeyboard(Keyboard):
    """Signals when a line is awaited."""

    def __init__(self, descriptor: int, on_message: Callable[[str], Awaitable[None]]) -> None:
        super().__init__(descriptor, on_message)
        self._waits, self.waits = anyio.create_memory_object_stream[None](10)

    async def line(self) -> str | None:
        self._waits.send_nowait(None)
        return await super().line()

    def clear(self) -> None:
        self._waits.close()
        self.waits.close()


async def put(
    question: Asked, typed: str, *, opening: str = "", colour: bool = False
) -> tuple[Response, str]:
    """Type at a question; return the response and the output."""
    master, terminal = pty.openpty()
    out = io.StringIO()

    async def on_message(line: str) -> None:
        raise AssertionError(f"{line!r} should have been an answer.")

    keyboard = SignallingKeyboard(terminal, on_message)
    prompter = Prompter(keyboard, Screen(out, colour=colour, live=False), opening=opening)
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await prompter(question))
        group.cancel_scope.cancel()

    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(keyboard.run)
                group.start_soon(ask)
                for keys in typed.splitlines(keepends=True):
                    await keyboard.waits.receive()
                    os.write(master, keys.encode())
    finally:
        keyboard.clear()
        os.close(master)
        os.close(terminal)
    return answers[0], out.getvalue()


def asked(kind: AskKind, text: str = "", title: str = "", diff: str = "", **more: Any) -> Asked:
    return Asked(ask_id="q", ask=kind, text=text, title=title, diff=diff, **more)


@each_row("kind", [AskKind.TOOL, AskKind.COMMAND, AskKind.USE_MCP_SERVER])
@each_row(
    ("typed", "answer"),
    [
        ("y\n", Say("yes")),
        (" YES \n", Say("yes")),
        ("n\n", Say("no")),
        ("No\n", Say("no")),
        ("\n\ny\n", Say("yes")),
        ("1\ny\n", Say("yes")),
        ("exit\n", LEAVE),
        ("10 is too many\n", Say("no", "10 is too many")),
        ("yes please\n", Say("no", "yes please")),
        ("use b.txt instead\n", Say("no", "use b.txt instead")),
        (CTRL_D, LEAVE),
    ],
)
async def test_only_a_bare_yes_approves_an_action(kind: AskKind, typed: str, answer: Response):
    assert (await put(asked(kind, "text"), typed))[0] == answer


@each_row(
    ("typed", "answer"),
    [
        ("1\n", Say("message", "8080")),
        (" 2 \n", Say("message", "9090")),
        ("3\n", Say("message", "3")),
        ("0\n", Say("message", "0")),
        ("2 more tests\n", Say("message", "2 more tests")),
        ("\ny\n", Say("message", "y")),
        (CTRL_D, LEAVE),
    ],
)
async def test_a_question_takes_a_number_or_text(typed: str, answer: Response):
    question = json.dumps(
        {"question": "Port?", "suggest": [{"answer": "8080"}, {"answer": "9090"}]}
    )
    response, seen = await put(asked(AskKind.FOLLOWUP, question), typed)
    assert response == answer
    assert seen.startswith("Port?\n  1. 8080\n  2. 9090\n> ")


@each_row(
    ("kind", "typed", "answer"),
    [
        (AskKind.COMPLETION_RESULT, "\n", Say("yes")),
        (AskKind.COMPLETION_RESULT, "y\n", Say("yes")),
        (AskKind.COMPLETION_RESULT, CTRL_D, Say("yes")),
        (AskKind.COMPLETION_RESULT, "more tests\n", Say("message", "more tests")),
        (AskKind.RESUME_TASK, "\n", Say("yes")),
        (AskKind.RESUME_TASK, "n\n", LEAVE),
        (AskKind.RESUME_TASK, CTRL_D, LEAVE),
        (AskKind.RESUME_TASK, "only the docs\n", Say("message", "only the docs")),
        (AskKind.RESUME_COMPLETED_TASK, "", Say("yes", by="policy")),
        (AskKind.MISTAKE_LIMIT_REACHED, "\n", Say("yes")),
        (AskKind.MISTAKE_LIMIT_REACHED, "use sed\n", Say("message", "use sed")),
        (AskKind.API_REQ_FAILED, "\n", LEAVE),
        (AskKind.API_REQ_FAILED, "y\n", Say("yes")),
        (AskKind.INVALID_MODEL, "q\n", LEAVE),
        (AskKind.PAYMENT_REQUIRED_PROMPT, "yes\n", Say("yes")),
        (AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, "\n", LEAVE),
        (AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, "y\n", Say("yes")),
    ],
)
async def test_an_empty_line_means_what_the_capital_letter_says(
    kind: AskKind, typed: str, answer: Response
):
    assert (await put(asked(kind), typed))[0] == answer


@each_row(
    ("question", "seen"),
    [
        (
            asked(AskKind.COMMAND, "make\nrm -rf \x1b[8mbuild"),
            f"Run this command:\n  make\n  rm -rf ␛[8mbuild\n{ALLOW}",
        ),
        (
            asked(AskKind.TOOL, "{}", "Edit a\nb.py", "-x\n+y\u202e"),
            f"Edit a␊b.py\n-x\n+y<U+202E>\n{ALLOW}",
        ),
        (
            asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, '{"count": 200, "type": "requests"}'),
            "This session has reached its limit of 200 requests (max_requests).\nContinue? [y/N] ",
        ),
        (
            asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, '{"count": 1, "type": "requests"}'),
            "This session has reached its limit of 1 request (max_requests).\nContinue? [y/N] ",
        ),
        (
            asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, '{"count": 2.5, "type": "cost"}'),
            "This session has reached its limit of $2.50 (max_cost).\nContinue? [y/N] ",
        ),
        (
            asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, "odd"),
            "This session has reached its limit.\nContinue? [y/N] ",
        ),
        (
            asked(AskKind.MISTAKE_LIMIT_REACHED, "Stuck\x07."),
            "Stuck␇.\nTry again? [Y/n, or a hint] ",
        ),
    ],
)
async def test_a_question_shows_the_action_with_control_characters_escaped(
    question: Asked, seen: str
):
    assert (await put(question, "y\n"))[1] == seen


@each_row("kind", [AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK])
async def test_a_resumed_task_gets_the_command_line_message_without_asking(
    kind: AskKind,
):
    assert await put(asked(kind), "", opening="and the docs") == (
        Say("message", "and the docs"),
        "",
    )


ALWAYS = Say("yes", always=True)


@each_row("kind", [AskKind.TOOL, AskKind.COMMAND, AskKind.USE_MCP_SERVER])
@each_row(
    ("typed", "answer"),
    [
        ("y\n", Say("yes")),
        ("n\n", Say("no")),
        ("a\ny\n", ALWAYS),
        (" Always \nYES\n", ALWAYS),
        ("a\n\nperhaps\na\ny\n", ALWAYS),
        ("a\nn\ny\n", Say("yes")),
        ("a\nn\nn\n", Say("no")),
        ("a\nno\na\ny\n", ALWAYS),
        ("a lot of harm\n", Say("no", "a lot of harm")),
        ("a\n" + CTRL_D, LEAVE),
    ],
)
async def test_always_must_be_confirmed(kind: AskKind, typed: str, answer: Response):
    assert (await put(asked(kind, "make", rule=RULE), typed))[0] == answer


async def test_the_rule_is_shown_in_full_before_it_is_confirmed():
    _, seen = await put(asked(AskKind.COMMAND, "make", rule=RULE), "a\ny\n")
    assert seen == f"Run this command:\n  make\n{OR_ALWAYS}{SURE}"


async def test_without_a_rule_there_is_no_always():
    assert await put(asked(AskKind.COMMAND, "make"), "a\n") == (
        Say("no", "a"),
        f"Run this command:\n  make\n{ALLOW}",
    )


async def test_a_rule_shows_hidden_characters():
    question = asked(AskKind.COMMAND, "x", rule="make\u202e" + " " * 40 + "x")
    _, seen = await put(question, "a\ny\n")
    assert seen.endswith("Always allow make<U+202E>␣×40x? [y/n] ")


NOTES = ("deletes 214 files below build/", "outside the workspace: /etc/x\ny")


@each_row(
    ("question", "above"),
    [
        (asked(AskKind.COMMAND, "make", notes=NOTES), "Run this command:\n  make\n"),
        (asked(AskKind.TOOL, "{}", "Edit a.py", "+x", notes=NOTES), "Edit a.py\n+x\n"),
    ],
)
async def test_notes_are_shown_next_to_the_question(question: Asked, above: str):
    _, seen = await put(question, "y\n")
    assert seen == (
        f"{above}  ! deletes 214 files below build/\n  ! outside the workspace: /etc/x␊y\n{ALLOW}"
    )


async def test_notes_are_coloured():
    question = asked(AskKind.COMMAND, "make", notes=NOTES[:1])
    _, seen = await put(question, "y\n", colour=True)
    assert "\x1b[33m\x1b[1m  ! deletes 214 files below build/\x1b[0m" in seen


@each_row(
    ("question", "shown"),
    [
        (asked(AskKind.COMMAND, "ls" + " " * 300 + "; rm x"), "  ls␣×300; rm x\n"),
        (asked(AskKind.COMMAND, "rm x" + "\n" * 99 + "ls"), "  rm x\n  <98 blank lines>\n  ls\n"),
        (asked(AskKind.TOOL, "{}", "Edit a", "+x\n" + "+\n" * 99), "+x\n+<99 blank lines>\n"),
        (asked(AskKind.COMMAND, "if x:\n    y"), "  if x:\n  ␣␣␣␣y\n"),
        (asked(AskKind.COMMAND, "ls\u2066\U000e0041\u200b"), "  ls<U+2066><U+E0041><U+200B>\n"),
        (asked(AskKind.COMMAND, "a\rb\r\nc"), "  a␍b␍\n  c\n"),
        (asked(AskKind.COMMAND, "ls", cwd="a\n     b\u202e"), " in a␊␣␣␣␣␣b<U+202E>:\n"),
        (asked(AskKind.TOOL, "{}", "Edit a.py" + " " * 90 + "x"), "Edit a.py␣×90x\n"),
        (asked(AskKind.COMMAND, "x", notes=("goes to \u202e/etc",)), "  ! goes to <U+202E>/etc\n"),
    ],
)
async def test_hidden_characters_in_commands_and_paths_are_shown(question: Asked, shown: str):
    assert shown in (await put(question, "y\n"))[1]


async def test_a_long_command_is_shown_in_full():
    lines = [f"echo {number}" for number in range(3000)]
    _, seen = await put(asked(AskKind.COMMAND, "\n".join(lines)), "y\n")
    assert seen == "Run this command:\n  " + "\n  ".join(lines) + f"\n{ALLOW}"


async def test_a_diff_keeps_its_indentation():
    _, seen = await put(asked(AskKind.TOOL, "{}", "Edit a.py", "+        x"), "y\n")
    assert "+        x\n" in seen


# ── questions with a time limit ─────────────────────────────────────────────────────────

PORT = asked(
    AskKind.FOLLOWUP,
    json.dumps(
        {"question": "Port?", "suggest": [{"answer": "8080", "mode": "debug"}, "2 more tests"]}
    ),
)
OPEN = asked(AskKind.FOLLOWUP, "Which one?")
BY_POLICY = Say("message", "8080", by="policy", mode="debug")


class WatchedOutput(io.StringIO):
    """Collects output and lets a test wait for more."""

    def __init__(self) -> None:
        super().__init__()
        self._more = anyio.Event()

    def write(self, text: str) -> int:
        self._more.set()
        return super().write(text)

    async def until(self, sign: Callable[[str], bool]) -> None:
        while not sign(self.getvalue()):
            self._more = anyio.Event()
            await self._more.wait()


def asks(seen: str) -> bool:
    return seen.endswith("> ")


async def put_in_time(
    question: Asked, typed: str, *, seconds: float | None = 60, hang_up: bool = False
) -> tuple[Response, str, bool]:
    """Like `put`, with a time limit; also returns whether the terminal modes are unchanged."""
    master, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    out = WatchedOutput()

    async def on_message(line: str) -> None:
        pass

    keyboard = Keyboard(terminal, on_message)
    screen = Screen(out, colour=False, live=False)
    prompter = Prompter(keyboard, screen, patience=lambda: seconds)
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await prompter(question))
        group.cancel_scope.cancel()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(keyboard.run)
            group.start_soon(ask)
            for keys in filter(None, typed.split("|")):
                await out.until(asks)
                assert prompter.is_active
                os.write(master, keys.encode())
                await out.until(lambda seen: not asks(seen))
            if hang_up:
                await out.until(lambda seen: asks(seen) or bool(typed))
                os.close(master)
    assert not prompter.is_active
    restored = hang_up or termios.tcgetattr(terminal) == before
    if not hang_up:
        os.close(master)
    os.close(terminal)
    return answers[0], out.getvalue(), restored


@each_row(
    ("typed", "seconds", "answer"),
    [
        pytest.param("", 0, BY_POLICY, id="at once"),
        pytest.param("", 0.05, BY_POLICY, id="timeout"),
        pytest.param("9\x7f90\r", 60, Say("message", "90"), id="typed"),
        pytest.param("2\r", 60, Say("message", "2 more tests"), id="chosen without a mode"),
        pytest.param("1\r", 60, Say("message", "8080", mode="debug"), id="chosen mode"),
        pytest.param("2 more tests\r", 60, Say("message", "2 more tests"), id="no choice"),
        pytest.param("\x03", 60, BY_POLICY, id="ctrl c is the default"),
        pytest.param("\x04", 60, BY_POLICY, id="end of input is a timeout"),
        pytest.param("\r|9090\r", 60, Say("message", "9090"), id="empty is no default"),
        pytest.param("one\rtwo\r", 60, Say("message", "one"), id="paste submits"),
    ],
)
async def test_a_question_of_an_automatic_run_is_answered_in_time(
    typed: str, seconds: float, answer: Response
):
    response, seen, restored = await put_in_time(PORT, typed, seconds=seconds)
    assert response == answer
    assert restored
    assert seen.startswith("Port?\n  1. 8080 (switches to debug mode)\n  2. 2 more tests\n")


async def test_a_closed_terminal_is_an_immediate_timeout():
    assert (await put_in_time(PORT, "", hang_up=True))[0] == BY_POLICY


async def test_a_question_without_suggestions_is_left_to_the_model():
    response, seen, _ = await put_in_time(OPEN, "", seconds=0.05)
    assert response == Say("message", DECIDE_YOURSELF, by="policy")
    assert seen == "Which one?\n(the model decides in 0.05 s, unless you type) > "


async def test_without_auto_approve_no_question_is_answered_automatically():
    response, seen = await put(PORT, "1\n")
    assert response == Say("message", "8080", mode="debug")
    assert seen.endswith("> " + "  8080\n")


async def test_one_question_at_a_time():
    master, terminal = pty.openpty()
    out = io.StringIO()

    async def on_message(line: str) -> None:
        raise AssertionError(line)

    keyboard = SignallingKeyboard(terminal, on_message)
    prompter = Prompter(keyboard, Screen(out, colour=False, live=False))
    answers: dict[str, Response] = {}

    async def ask(name: str) -> None:
        answers[name] = await prompter(asked(AskKind.TOOL, title=name))
        if len(answers) == 2:
            group.cancel_scope.cancel()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(keyboard.run)
            group.start_soon(ask, "first")
            await keyboard.waits.receive()
            group.start_soon(ask, "second")
            await anyio.wait_all_tasks_blocked()
            assert "second" not in out.getvalue()
            os.write(master, b"y\n")
            await keyboard.waits.receive()
            os.write(master, b"n\n")
    assert answers == {"first": Say("yes"), "second": Say("no")}
    keyboard.clear()
    os.close(master)
    os.close(terminal)


async def test_a_long_question_is_wrapped_between_words():
    words = "whether the configuration should be read once " * 6
    out = io.StringIO()
    screen = Screen(out, colour=False, live=True)
    screen.sentence(words)
    assert all(len(line) < 80 for line in out.getvalue().splitlines())
    assert out.getvalue().split() == words.split()


PLAN = Asked(ask_id="p", ask=AskKind.COMPLETION_RESULT, plan="- [ ] Theirs")


async def test_a_comment_goes_with_the_edited_version_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho '- [ ] Mine' > $1\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    answer, _ = await put(PLAN, "o\nadd docs\n")
    assert isinstance(answer, Say)
    assert answer.text.startswith("add docs\n")
    assert answer.text.endswith("\n- [ ] Mine")
    answer, out = await put(PLAN, "1\nadd docs\n")
    assert answer == Say("message", "add docs")
    assert "Type a, e or u" in out


async def test_a_plan_is_unchanged_if_the_editor_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VISUAL", "false")
    answer, out = await put(PLAN, "o\ne\n")
    assert answer == Say("message", PLAN.plan, level=Level.EDITS)
    assert "The editor failed, so the plan is unchanged." in out
