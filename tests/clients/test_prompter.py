"""Questions put to a person at a real pseudo-terminal, and what the typed lines mean."""

import io
import json
import os
import pty
from collections.abc import Awaitable, Callable

import anyio
import pytest

from rookery.clients.attendant import Leave, Response, Say
from rookery.clients.keyboard import Keyboard
from rookery.clients.prompter import LEFT_AT_PROMPT, Prompter
from rookery.clients.screen import Screen
from rookery.core.asks import AskKind
from rookery.core.facts import Asked

pytestmark = pytest.mark.anyio

LEAVE = Leave(LEFT_AT_PROMPT, code="task_aborted")
CTRL_D = "\x04"
ALLOW = "Allow this? [y/n, or say why not] "


class PatientKeyboard(Keyboard):
    """Tells whoever types when a line is waited for."""

    def __init__(self, descriptor: int, unasked: Callable[[str], Awaitable[None]]) -> None:
        super().__init__(descriptor, unasked)
        self._waits, self.waits = anyio.create_memory_object_stream[None](10)

    async def line(self) -> str | None:
        self._waits.send_nowait(None)
        return await super().line()

    def clear(self) -> None:
        self._waits.close()
        self.waits.close()


async def put(question: Asked, typed: str, *, opening: str = "") -> tuple[Response, str]:
    """What comes of typing at a question, and what the person saw."""
    fingers, terminal = pty.openpty()
    out = io.StringIO()

    async def unasked(line: str) -> None:
        raise AssertionError(f"{line!r} was to be an answer.")

    keyboard = PatientKeyboard(terminal, unasked)
    prompter = Prompter(keyboard, Screen(out, colour=False, live=False), opening=opening)
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await prompter(question))
        group.cancel_scope.cancel()

    try:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(keyboard.run)
                group.start_soon(ask)
                for keys in typed.splitlines(keepends=True):
                    await keyboard.waits.receive()
                    os.write(fingers, keys.encode())
    finally:
        keyboard.clear()
        os.close(fingers)
        os.close(terminal)
    return answers[0], out.getvalue()


def asked(kind: AskKind, text: str = "", title: str = "", diff: str = "") -> Asked:
    return Asked(ask_id="q", ask=kind, text=text, title=title, diff=diff)


@pytest.mark.parametrize("kind", [AskKind.TOOL, AskKind.COMMAND, AskKind.USE_MCP_SERVER])
@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y\n", Say("yes")),
        (" YES \n", Say("yes")),
        ("n\n", Say("no")),
        ("No\n", Say("no")),
        ("\n\ny\n", Say("yes")),
        ("yes please\n", Say("no", "yes please")),
        ("use b.txt instead\n", Say("no", "use b.txt instead")),
        (CTRL_D, LEAVE),
    ],
)
async def test_only_a_clear_yes_allows_an_action(kind: AskKind, typed: str, answer: Response):
    assert (await put(asked(kind, "text"), typed))[0] == answer


@pytest.mark.parametrize(
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
async def test_a_question_takes_a_number_or_words(typed: str, answer: Response):
    question = json.dumps(
        {"question": "Port?", "suggest": [{"answer": "8080"}, {"answer": "9090"}]}
    )
    response, seen = await put(asked(AskKind.FOLLOWUP, question), typed)
    assert response == answer
    assert seen.startswith("Port?\n  1. 8080\n  2. 9090\n> ")


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
            "This task has made 200 requests, which is its limit. Go on? [y/N] ",
        ),
        (
            asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, '{"count": 2.5, "type": "cost"}'),
            "This task has cost $2.50, which is its limit. Go on? [y/N] ",
        ),
        (
            asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, "odd"),
            "The limit for this task is reached. Go on? [y/N] ",
        ),
        (
            asked(AskKind.MISTAKE_LIMIT_REACHED, "Stuck\x07."),
            "Stuck␇.\nTry again? [Y/n, or a hint] ",
        ),
    ],
)
async def test_the_person_sees_harmlessly_what_a_yes_would_mean(question: Asked, seen: str):
    assert (await put(question, "y\n"))[1] == seen


@pytest.mark.parametrize("kind", [AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK])
async def test_words_of_the_command_line_are_told_to_a_resumed_task_without_asking(kind: AskKind):
    assert await put(asked(kind), "", opening="and the docs") == (
        Say("message", "and the docs"),
        "",
    )
