"""What a plain terminal shows of a task."""

import io
import json
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core import replies
from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CommandDetached,
    CommandEnded,
    CommandQuiet,
    CompletionOffered,
    Ending,
    Event,
    Fact,
    FilesChanged,
    FilesRestored,
    ModelSwitched,
    ModeSwitched,
    Noted,
    OutputStreamed,
    Pausing,
    RequestFailed,
    RequestStarted,
    Rewound,
    SavingFiles,
    StepCancelled,
    TaskFailed,
    TaskOpened,
    TextStreamed,
    ThinkingStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    Waiting,
)
from rookery.core.limits import FailureKind
from rookery.core.text.terminal_text import gap
from rookery.plain.display import PlainDisplay
from rookery.plain.screen import LAST_LINES, LINE_LENGTH, OUTPUT_LINES, Screen
from support.each_row import each_row

NOTED = "  queued for the model's next step"
BUSY = FailureKind.BUSY


def text(words: str) -> Fact:
    return TextStreamed(request_id="r", text=words)


def spoke(usage: Usage | None = None) -> Fact:
    return AssistantSpoke(request_id="r", blocks=(), usage=usage or Usage())


def started(title: str, payload: str = "", tool: str = "read_file") -> Fact:
    return ToolStarted(call_id="c", tool=tool, title=title, text=payload)


def allowed(title: str) -> Fact:
    return Asked(ask_id="q", ask=AskKind.COMMAND, title=title)


def output(words: str) -> Fact:
    return OutputStreamed(call_id="c", text=words)


def finished(said: str = "", ending: Ending = Ending.DONE, code: int | None = None) -> Fact:
    return ToolFinished(call_id="c", text=said, ending=ending, exit_code=code)


def failed(message: str) -> Fact:
    return RequestFailed(request_id="r", error=BUSY, message=message)


def shown(*facts: Fact, live: bool = False, shows_result: bool = True) -> str:
    out = io.StringIO()
    display = PlainDisplay(Screen(out, colour=False, live=live), shows_result=shows_result)
    for seq, fact in enumerate(facts, 1):
        display.show(Event(seq, 0, seq, fact))
    return out.getvalue()


SAID = [text("It is"), text(" 4."), AssistantSpoke(request_id="r", blocks=(Text(text="It is 4."),))]
OFFERED = CompletionOffered(result="It is 4.", spoken=True)
DONE = Asked(ask_id="1", ask=AskKind.COMPLETION_RESULT)
AGAIN = RequestStarted(request_id="r2", model="m")
CALLS = AssistantSpoke(
    request_id="r", blocks=(Text(text="I look."), ToolCall(id="c", name="x", arguments={}))
)


@each_row(
    ("facts", "lines", "last"),
    [
        ([*SAID, OFFERED, DONE], [], "It is 4."),
        ([*SAID, AGAIN], ["It is 4."], "It is 4."),
        ([*SAID, AGAIN, text("Or 5"), StepCancelled()], ["It is 4.", "Or 5"], "Or 5"),
        ([*SAID, AGAIN, text("Or"), failed("Gone.")], ["It is 4.", "Or", "✗ Gone."], "Or"),
        ([text("I look."), CALLS, started("Look")], ["I look.", "● Look"], "I look."),
        ([*SAID, CompletionOffered(result="Four.")], ["It is 4."], "Four."),
        ([text(" "), spoke(), AGAIN], [], ""),
    ],
)
def test_text_that_may_be_the_result_is_held_if_the_result_is_printed_elsewhere(
    facts: list[Fact], lines: list[str], last: str
):
    out = io.StringIO()
    display = PlainDisplay(Screen(out, colour=False, live=False), shows_result=False)
    for seq, fact in enumerate(facts, 1):
        display.show(Event(seq, 0, seq, fact))
    reported = [line for line in out.getvalue().splitlines() if line.strip()]
    assert [line for line in reported if not line.startswith("Stopped.")] == lines
    assert display.model_text.last == last


def test_text_of_a_sub_task_is_shown_once():
    out = io.StringIO()
    display = PlainDisplay(Screen(out, colour=False, live=False), shows_result=True)
    for seq, fact in enumerate([*SAID, OFFERED], 1):
        display.show(Event(seq, 0, seq, fact), "t2")
    assert out.getvalue().splitlines() == ["It is 4.", "◂ sub-task done"]


LOOKS = json.dumps({"diffStats": {"added": 3, "removed": 1}})
NO_ENTRY = json.dumps({"status": "denied", "feedback": "use b.txt\ninstead"})
MISSING = json.dumps({"status": "error", "message": "No such file: a.py."})


@each_row(
    ("facts", "lines"),
    [
        ([text("Hello "), text("there."), spoke()], ["Hello there."]),
        ([text(""), spoke()], []),
        ([ThinkingStreamed(request_id="r", text="Hm."), text("Yes."), spoke()], ["Hm.", "Yes."]),
        ([started("Read a.py"), finished()], ["● Read a.py"]),
        ([started("Read a\nb.py"), finished()], ["● Read a␊b.py"]),
        ([started("Edit a.py", LOOKS), finished()], ["● Edit a.py (+3 −1)"]),
        ([started("Ask", tool="ask_followup_question"), finished()], []),
        (
            [started("Run x"), output("one\ntw"), output("o\n\nlast"), finished(code=0)],
            ["● Run x", "  one", "  two", "  ", "  last"],
        ),
        ([started("Run x"), output("no\n"), finished(code=2)], ["● Run x", "  no", "  exit 2"]),
        (
            [started("Edit a"), finished("{}\n\n1 new error in 1 other file:\nb:1: no")],
            ["● Edit a", "  1 new error in 1 other file:", "  b:1: no"],
        ),
        (
            [started("Run x"), output("1%\r50%\r99%\r\nyes\r\n"), finished(code=0)],
            ["● Run x", "  1%", "  50%", "  99%", "  yes"],
        ),
        (
            [started("Run x"), finished("Directory: .\nTimed out.", Ending.FAILED, code=143)],
            ["● Run x", "  ✗ Timed out."],
        ),
        (
            [finished(NO_ENTRY, Ending.DENIED)],
            ["  ✗ skipped: use b.txt instead"],
        ),
        ([finished(replies.denied(), Ending.DENIED)], ["  ✗ skipped"]),
        ([finished(MISSING, Ending.FAILED)], ["  ✗ No such file: a.py."]),
        ([finished(replies.failed(""), Ending.FAILED)], ["  ✗ failed"]),
        ([finished("x" * 600, Ending.FAILED)], ["  ✗ " + "x" * 499 + "…"]),
        (
            [
                TodosChanged(
                    todos=(
                        Todo(id="1", content="Look", status="completed"),
                        Todo(id="2", content="Fix", status="in_progress"),
                        Todo(id="3", content="Test\nit"),
                    )
                )
            ],
            ["  [x] Look", "  [-] Fix", "  [ ] Test␊it"],
        ),
        ([CompletionOffered(result="All\ngood.")], []),
        ([*SAID, OFFERED, DONE], ["It is 4."]),
        ([Pausing(seconds=2.5, reason="", paced=True)], ["  next request in 2.5 s"]),
        (
            [
                CompletionOffered(result="All\ngood."),
                Asked(ask_id="1", ask=AskKind.COMPLETION_RESULT),
            ],
            ["✔ All", "good."],
        ),
        (
            [
                failed("Overloaded."),
                Pausing(seconds=4.6, reason=""),
                RequestStarted(request_id="r", model="m", attempt=2),
            ],
            ["✗ Overloaded.", "  trying again in 5 s (attempt 2)"],
        ),
        (
            [failed("Overloaded."), RequestStarted(request_id="r", model="m", attempt=2)],
            ["✗ Overloaded.", "  trying again at once (attempt 2)"],
        ),
        (
            [
                failed("Overloaded."),
                RequestStarted(request_id="r", model="m", attempt=2),
                failed("Overloaded."),
                Asked(ask_id="1", ask=AskKind.API_REQ_FAILED, text="Overloaded."),
            ],
            [
                "✗ Overloaded.",
                "  trying again at once (attempt 2)",
                "✗ Overloaded. (tried 2 times)",
            ],
        ),
        ([RequestStarted(request_id="r", model="m")], []),
        (
            [UserSpoke(message_id="m", text="hi")],
            ["  queued for the model's next step"],
        ),
        (
            [text("Half a sen"), StepCancelled()],
            ["Half a sen", "Stopped. Press Ctrl-C again to exit."],
        ),
        ([Noted(text="Mind\x1b this.")], ["note: Mind␛ this."]),
        ([TaskFailed(message="It broke.")], ["✗ The task failed: It broke."]),
        (
            [allowed("Run rm a"), finished(NO_ENTRY, Ending.DENIED)],
            ["✗ Run rm a: skipped: use b.txt instead"],
        ),
        (
            [
                allowed("Run rm a"),
                started("Run rm a"),
                finished(code=0),
                finished(NO_ENTRY, Ending.DENIED),
            ],
            ["● Run rm a", "  ✗ skipped: use b.txt instead"],
        ),
        (
            [CommandDetached(call_id="c", command="npm\n\x1b[8mdev", artifact="a")],
            ["  still running: npm␊␛[8mdev (/stop ends it)"],
        ),
        (
            [CommandEnded(call_id="c", text="It has ended: npm\nExit code: 0\nOutput:")],
            ["note: It has ended: npm"],
        ),
        (
            [
                FilesRestored(
                    to=3, before="b", after="a", paths=("a", "b"), count=2, kept=("c\x07",)
                )
            ],
            [
                (
                    "Restored 2 files: a, b. Skipped, because someone else changed them: "
                    "c␇. /rewind 0 undoes that."
                )
            ],
        ),
        ([Rewound(to=7)], ["The conversation was rewound to 7."]),
        ([FilesChanged(call_id="c", before="b", after="a", since=1)], []),
    ],
)
def test_each_event_is_shown_in_its_own_lines(facts: list[Fact], lines: list[str]):
    assert shown(*facts) == "".join(f"{line}\n" for line in lines)


def numbered(count: int) -> str:
    return "".join(f"{number}\n" for number in range(1, count + 1))


def test_skipped_lines_are_counted_too():
    lines = shown(
        started("Run x"),
        output(numbered(100)),
        output(gap(5000, 99)),
        output("a\nb\n"),
        output(gap(300, 99)),
        output("".join(f"{n}\n" for n in range(5403, 5413))),
        finished(),
    ).splitlines()
    left_out = 5412 - OUTPUT_LINES - LAST_LINES
    assert lines[OUTPUT_LINES + 1] == f"  … {left_out} more lines"
    assert lines[OUTPUT_LINES + 2 :] == [f"  {n}" for n in range(5413 - LAST_LINES, 5413)]


def test_a_long_output_shows_its_beginning_and_end():
    lines = shown(started("Run x"), output(numbered(100)), finished(code=1)).splitlines()
    assert lines[1 : OUTPUT_LINES + 1] == [f"  {n}" for n in range(1, OUTPUT_LINES + 1)]
    left_out = 100 - OUTPUT_LINES - LAST_LINES
    assert lines[OUTPUT_LINES + 1] == f"  … {left_out} more lines"
    assert lines[OUTPUT_LINES + 2 :] == [*(f"  {n}" for n in range(95, 101)), "  exit 1"]


def test_a_slightly_long_output_is_shown_in_full():
    text = numbered(OUTPUT_LINES + LAST_LINES)
    pieces = [output(text[at : at + 3]) for at in range(0, len(text), 3)]
    lines = shown(started("Run x"), *pieces, finished(code=0)).splitlines()
    assert lines[1:] == [f"  {n}" for n in range(1, OUTPUT_LINES + LAST_LINES + 1)]


@each_row("size", [1, 250, 300, 4000])
def test_a_very_long_line_is_cut(size: int):
    pieces = [output("x" * size) for _ in range(3000 // size + 1)]
    text = shown(started("Run x"), *pieces, output("\nnext\n"), finished(code=0))
    assert text == "● Run x\n  " + "x" * LINE_LENGTH + "…\n  next\n"


def test_a_streaming_call_is_a_status_with_its_size():
    pieces = [
        CallStreamed(request_id="r", index=0, name="write_to_file", arguments="x" * 600)
        for _ in range(2)
    ]
    drawn = shown(*pieces, spoke(), live=True)
    assert drawn.startswith("  preparing write_to_file\r")
    assert "  preparing write_to_file (1.2 KB)\r" in drawn
    assert drawn.endswith("\r")


def test_silence_is_a_status():
    assert shown(Waiting(request_id="r", seconds=12), live=True) == "  no answer yet (12 s)"
    loading = Waiting(request_id="r", seconds=3, what="Loading \x1b[2Jm.gguf")
    assert shown(loading, live=True) == "  Loading ␛[2Jm.gguf (3 s)"
    assert shown(loading, loading) == "  Loading ␛[2Jm.gguf\n"


def test_a_command_that_writes_nothing_is_a_status():
    quiet = CommandQuiet(call_id="c", seconds=20)
    drawn = "  no output for 20 s; it may be waiting for input"
    assert shown(quiet, live=True) == drawn


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (SavingFiles(call_id="c"), "saving files for undo"),
        (RequestStarted(request_id="r", model="m"), "waiting for m"),
        (ToolStarted(call_id="c", tool="execute_command", title="Run x", command="x"), "running"),
    ],
    ids=["saving", "waiting", "running"],
)
def test_a_slow_step_is_named_with_its_seconds(fact: Fact, words: str):
    out = io.StringIO()
    display = PlainDisplay(Screen(out, colour=False, live=True), shows_result=True)
    display.show(Event(1, 0, 1, fact))
    display.tick(100.0)
    assert words not in out.getvalue()
    display.show(Event(2, 0, 2, FilesChanged(call_id="b", before="b", after="a", since=1)))
    display.tick(103.0)
    assert f"  {words} … 3 s (Ctrl-C stops)" in out.getvalue()


def test_the_result_is_kept_for_printing():
    out = io.StringIO()
    display = PlainDisplay(Screen(out, colour=False, live=False), shows_result=False)
    display.show(Event(1, 0, 1, CompletionOffered(result="Done.")))
    assert (display.result, out.getvalue()) == ("Done.", "")


def test_usage_is_summed_over_answers_and_failures_and_an_unknown_cost_stays_unknown():
    display = PlainDisplay(Screen(io.StringIO(), colour=False, live=False), shows_result=True)
    display.show(Event(1, 0, 1, spoke(Usage(tokens_in=10, tokens_out=2))))
    assert display.usage == Usage(tokens_in=10, tokens_out=2)
    display.show(Event(2, 0, 2, spoke(Usage(tokens_in=5, tokens_out=1, cost=0.5))))
    broken = RequestFailed(request_id="r", error=BUSY, message="", usage=Usage(tokens_in=1))
    display.show(Event(3, 0, 3, broken))
    assert display.usage == Usage(tokens_in=16, tokens_out=3, cost=0.5)
    display.show(Event(4, 0, 0, Noted(text="A server asked.", usage=Usage(tokens_in=4, cost=0.1))))
    assert display.usage == Usage(tokens_in=20, tokens_out=3, cost=0.6)


def test_an_open_question_is_repeated_below_new_output():
    out = io.StringIO()
    screen = Screen(out, colour=False, live=False)
    display = PlainDisplay(screen, shows_result=True)
    screen.ask("Go on? ")
    display.show(Event(1, 0, 1, UserSpoke(message_id="m", text="hi")))
    display.show(Event(2, 0, 2, CommandEnded(call_id="c", text="It has ended.")))
    display.show(Event(3, 0, 3, StepCancelled()))
    assert out.getvalue() == (
        f"Go on? \n{NOTED}\nGo on? \nnote: It has ended.\nGo on? \n"
        "Stopped. Press Ctrl-C again to exit.\n"
    )


@given(st.text(max_size=40), st.booleans())
def test_text_of_models_and_tools_never_reaches_the_terminal_raw(words: str, live: bool):
    out = io.StringIO()
    plain = PlainDisplay(Screen(out, colour=False, live=live), shows_result=True)
    facts = [
        TaskOpened(text=words),
        text(words),
        ThinkingStreamed(request_id="r", text=words),
        CallStreamed(request_id="r", index=0, name=words, arguments=words),
        started(words, json.dumps({"diffStats": words})),
        output(words),
        finished(words, Ending.FAILED),
        allowed(words),
        finished(words, Ending.DENIED),
        failed(words),
        Noted(text=words),
        ModeSwitched(mode=words),
        ModelSwitched(provider=words, model=words),
        CommandDetached(call_id="c", command=words, artifact="a"),
        CommandEnded(call_id="c", text=words),
        Asked(ask_id="q", ask=AskKind.FOLLOWUP, text=words),
        Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text=words, by="policy"),
        CompletionOffered(result=words),
        TaskFailed(message=words),
    ]
    for seq, fact in enumerate(facts, 1):
        plain.show(Event(seq, 0, seq, fact))
        plain.show(Event(seq, 0, seq, fact), "child")
    # we write control characters only to replace a status or to wrap a word
    ours = "\n\t\r\b" if live else "\n\t"
    raw = [char for char in out.getvalue() if category(char) == "Cc" and char not in ours]
    assert raw == []


def test_streamed_text_is_written_once():
    out = io.StringIO()
    plain = PlainDisplay(Screen(out, colour=False, live=False), shows_result=True)
    for seq, piece in enumerate(["I will ", "look ", "at it."], 1):
        plain.show(Event(seq, 0, seq, text(piece)))
    plain.show(Event(4, 0, 4, spoke()))
    plain.show(Event(5, 0, 5, text("Another answer.")))
    plain.show(Event(6, 0, 6, spoke()))
    assert out.getvalue() == "I will look at it.\nAnother answer.\n"
