"""The full screen: what it shows, what keys do, and what it sends to the host."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from textual.events import Key

from rookery.core.asks import AskKind
from rookery.core.blocks import Text
from rookery.core.commands import (
    Answer,
    Cancel,
    CloseTask,
    EditQueue,
    OpenTask,
    ReopenTask,
    Speak,
    SwitchMode,
)
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    ChildBegan,
    CompletionOffered,
    PromptRefused,
    QueueEdited,
    RequestStarted,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.modes import Level
from rookery.core.queries import AskAbout, AskPaths, FoundPath
from rookery.core.settings_sections import UiSettings
from rookery.protocol.attend import Fate, RunEnd
from support.scripted_host import ABOUT
from support.tui_scenes import (
    COMMAND,
    EDIT,
    FOLLOWUP,
    asking_about_a_command,
    asking_about_an_edit,
    completed,
    reading,
    wondering,
    working,
)
from support.tui_session import Play, play

pytestmark = pytest.mark.anyio


async def test_the_first_message_opens_a_task():
    async with play(task=False) as played:
        assert "What should I do?" in played.screen
        await played.type("fix it")
        await played.press("enter")
        (opened,) = played.sent(OpenTask)
        assert (opened.text, opened.mode) == ("fix it", "code")
        await played.settle()
        assert "› fix it" in played.screen


async def test_the_header_shows_mode_model_folder_and_cost():
    async with play(size=(120, 30)) as played:
        reading(played.host)
        await played.settle()
        head = played.lines[0]
        for part in ("rookery", "code", "claude-opus-4.6", "~/shop", "$0.30", "↑48.2K ↓612", "24%"):
            assert part in head


async def test_an_action_is_shown_in_full_and_type_ahead_never_approves_it():
    async with play() as played:
        asking_about_an_edit(played.host)
        await played.settle()
        await played.press("y", "enter")
        assert played.sent(Answer) == []
        await played.ripen()
        assert played.sent(Answer) == []
        shown = played.screen
        for part in ("Edit prices.py?", "/ 100", "y yes", "n no", "a always", "because"):
            assert part in shown
        await played.press("y")
        (answer,) = played.sent(Answer)
        assert answer == Answer(task_id="t1", ask_id="a1", reply="yes", digest="d1")


async def test_a_question_must_be_visible_before_a_key_counts():
    async with play() as played:
        asking_about_an_edit(played.host)
        await played.settle()
        await played.type("go on")
        await played.press("enter")
        assert played.sent(Answer) == []
        assert [words.text for words in played.sent(Speak)] == ["go on"]
        # behind a side screen
        await played.ask(EDIT)
        await played.press("f1")
        await played.see("Everywhere")
        await played.until(lambda: not played.panel.live)
        await played.press("escape", "y")
        await played.settle()
        assert played.sent(Answer) == []
        await played.ripen()
        await played.press("y")
        assert [answer.reply for answer in played.sent(Answer)] == ["yes"]
        # the rule is shown before it is saved
        await played.ask(EDIT)
        await played.press("a")
        assert "edit prices.py" in played.screen
        assert played.sent(Answer) == []
        await played.press("escape")
        assert "Edit prices.py?" in played.screen
        assert not played.panel.live
        await played.ripen()
        await played.press("a")
        await played.press("y")
        assert played.sent(Answer) == []
        await played.ripen()
        await played.press("y")
        (answer,) = played.sent(Answer)
        assert (answer.reply, answer.always) == ("yes", True)


async def test_the_model_reads_the_reason_of_a_rejection():
    async with play() as played:
        await played.ask(EDIT)
        await played.press("r")
        assert "enter sends   esc back" in played.screen
        await played.type("use cents")
        await played.press("enter")
        (answer,) = played.sent(Answer)
        assert (answer.reply, answer.text) == ("no", "use cents")
        for typed in ("ryes", "rn", "r12y"):
            await played.ask(EDIT)
            for character in typed:
                played.app.post_message(Key(character, character))
            await played.until(lambda typed=typed: played.composer.text == typed[1:])
            assert played.sent(Answer) == []
            await played.press("enter")
            sent = [(each.reply, each.text) for each in played.sent(Answer)]
            assert sent == [("no", typed[1:])], (
                "text after r is the reason, even if it looks like an answer"
            )
        await played.ask(EDIT)
        await played.press("r", "x", "escape")
        assert played.panel.has_focus
        assert "y yes" in played.screen
        assert played.sent(Cancel) == []


async def test_a_question_is_open_until_it_is_answered_here_or_elsewhere():
    async with play() as played:
        await played.ask(EDIT)
        played.host.refusal = "Somebody else was quicker."
        await played.press("y")
        await played.settle()
        assert "Somebody else was quicker." in played.screen
        assert "Edit prices.py?" in played.screen
        await played.ask(EDIT)
        open_now = played.panel.asked
        played.host.tell(Answered(ask_id=open_now.ask_id, ask=AskKind.TOOL, reply="yes"))
        await played.settle()
        assert "Edit prices.py?" not in played.screen
        assert played.composer.has_focus


async def test_a_command_shows_its_effects_and_sandbox_and_offers_no_missing_rule():
    async with play() as played:
        asking_about_a_command(played.host)
        await played.ripen()
        shown = played.screen
        for part in ("Run this command?", "rm -rf build", "! deletes 40 files", "in the sandbox"):
            assert part in shown
        await played.press("n")
        (answer,) = played.sent(Answer)
        assert (answer.reply, answer.ask_id, answer.always) == ("no", COMMAND.ask_id, False)


async def test_a_suggestion_is_chosen_by_mark_or_number_and_other_answers_are_typed():
    async with play() as played:
        await played.ask(FOLLOWUP)
        assert "1. Half up, as shops do" in played.screen
        await played.press("down", "enter")
        assert played.sent(SwitchMode) == [SwitchMode(task_id="t1", mode="architect")]
        (answer,) = played.sent(Answer)
        assert (answer.reply, answer.text) == ("message", "Banker's rounding")
        for keys, typed, text in (
            ((), "not yet", "not yet"),
            (("tab",), "3", "None at all"),
            (("tab",), "3 x", "3 x"),
        ):
            await played.ask(FOLLOWUP)
            await played.press(*keys)
            await played.type(typed)
            await played.press("enter")
            assert [answer.text for answer in played.sent(Answer)] == [text]


async def test_a_question_does_not_interrupt_typing():
    async with play() as played:
        working(played.host)
        await played.settle()
        await played.type("yes and")
        played.host.tell(AssistantSpoke(request_id="r2", blocks=()), EDIT)
        await played.ripen()
        await played.type(" yyy")
        assert played.sent(Answer) == []
        assert played.app._page.composer.text == "yes and yyy"
        assert "tab to answer" in played.screen


async def test_an_earlier_draft_does_not_answer_a_question_but_the_next_message_does():
    async with play() as played:
        working(played.host)
        await played.settle()
        await played.type("and then")
        played.host.tell(AssistantSpoke(request_id="r2", blocks=()), EDIT)
        await played.ripen()
        await played.press("enter")
        assert [words.text for words in played.sent(Speak)] == ["and then"]
        assert played.sent(Answer) == []
        await played.see("The question is still open")
        await played.type("not so")
        await played.press("enter")
        assert [(each.reply, each.text) for each in played.sent(Answer)] == [("no", "not so")]


@asynccontextmanager
async def auto_approved_question(seconds: float, asked: Asked = FOLLOWUP) -> AsyncIterator[Play]:
    async with play(task=False, suggestion_seconds=seconds) as played:
        played.host.answer(AskAbout, replace(ABOUT, automatic=True, level=Level.AUTO))
        await played.app._open_first()
        await played.type("go")
        await played.press("enter")
        played.host.tell(asked, task=played.sent(OpenTask)[0].task_id)
        yield played


async def test_with_auto_approve_the_first_suggestion_is_chosen_after_a_while():
    async with auto_approved_question(0.8) as played:
        await played.until(lambda: bool(played.sent(Answer)))
        assert [answer.text for answer in played.sent(Answer)] == ["Half up, as shops do"]


async def test_a_question_of_a_server_waits_for_the_user():
    theirs = replace(FOLLOWUP, title="The MCP server far asks")
    async with auto_approved_question(0.0, theirs) as played:
        await played.see("The MCP server far asks")
        await played.ripen()
        assert "answers 1 in" not in played.screen
        assert played.sent(Answer) == []


async def test_a_key_stops_the_countdown_for_good():
    async with auto_approved_question(60.0) as played:
        await played.see("answers 1 in")
        await played.press("down")
        await played.until(lambda: "answers 1 in" not in played.screen)


async def test_questions_are_not_answered_automatically_when_approval_is_required():
    async with play(suggestion_seconds=0.0) as played:
        wondering(played.host)
        await played.ripen()
        assert played.sent(Answer) == []


async def test_escape_stops_the_running_step_or_clears_the_input():
    async with play() as played:
        working(played.host)
        await played.settle()
        assert "Answering" in played.screen
        await played.press("escape")
        assert played.sent(Cancel) == [Cancel(task_id="t1")]
        played.host.tell(StepCancelled(), Asked(ask_id="a9", ask=AskKind.RESUME_TASK))
        await played.settle()
        assert "Enter continues" in played.screen
        await played.type("no")
        await played.press("escape")
        assert played.app._page.composer.text == ""
        await played.press("enter")
        assert [answer.reply for answer in played.sent(Answer)] == ["yes"]


async def test_the_second_ctrl_c_exits():
    async with play() as played:
        await played.press("ctrl+c")
        assert "Ctrl+C again to exit" in played.screen
        await played.press("ctrl+c")
    assert played.app.return_value
    assert played.app.return_value.fate is Fate.LEFT


async def test_exiting_a_completed_task_accepts_it():
    async with play() as played:
        completed(played.host)
        await played.settle()
        await played.press("ctrl+c", "ctrl+c")
    assert [(each.ask_id, each.reply) for each in played.sent(Answer)] == [("a3", "yes")]


async def test_a_final_text_is_shown_once_and_the_input_is_ready():
    async with play() as played:
        played.host.tell(
            TaskOpened(text="What is 2 + 2?"),
            RequestStarted(request_id="r1", model="m"),
            TextStreamed(request_id="r1", text="It is **4**."),
        )
        await played.settle()
        assert "It is 4." in played.screen
        played.host.tell(
            AssistantSpoke(request_id="r1", blocks=(Text(text="It is **4**."),)),
            CompletionOffered(result="It is **4**.", spoken=True),
            Asked(ask_id="a1", ask=AskKind.COMPLETION_RESULT),
        )
        await played.settle()
        assert played.screen.count("It is 4.") == 1
        assert "✔ It is 4." in played.screen
        await played.type("and 3 + 3?")
        await played.press("enter")
        assert [(each.reply, each.text) for each in played.sent(Answer)] == [
            ("message", "and 3 + 3?")
        ]


async def test_a_result_can_be_redrawn_copied_and_followed_up():
    async with play() as played:
        completed(played.host)
        await played.settle()
        before = played.screen
        assert "✔ The discount is taken in percent now" in before
        await played.type("/theme light")
        await played.press("enter")
        await played.settle()
        assert played.app.theme == "light"
        assert played.screen == before
        await played.press("ctrl+y")
        assert "The discount is taken in **percent** now" in played.app.clipboard
        assert "Copied." in played.screen
        await played.type("and now")
        await played.press("enter")
        assert [(each.reply, each.text) for each in played.sent(Answer)] == [("message", "and now")]


async def test_a_message_queued_after_completion_becomes_the_follow_up():
    async with play() as played:
        completed(played.host)
        played.host.tell(UserSpoke(message_id="m7", text="wait"))
        await played.settle()
        assert played.sent(EditQueue) == [EditQueue(task_id="t1", message_id="m7")]
        assert [each.text for each in played.sent(Answer)] == ["wait"]


async def test_a_running_task_shows_queued_messages_and_is_not_left_by_mistake():
    async with play() as played:
        working(played.host)
        await played.settle()
        assert "⋯ and mention it in the changelog" in played.screen
        await played.type("more")
        await played.press("enter")
        assert [words.text for words in played.sent(Speak)] == ["more"]
        played.host.tell(QueueEdited(message_id="m1", text=None))
        await played.settle()
        assert "⋯" not in played.screen
        for key in ("escape", "ctrl+c"):
            await played.type("?")
            await played.see("completes a file")
            await played.press(key)
            await played.settle()
            assert "completes a file" not in played.screen
            assert played.composer.text == ""
        assert played.sent(Cancel) == [], "these keys only close the picker"
        await played.app.new_task()
        await played.settle()
        assert "A task is running" in played.screen
        assert played.app.task_id == "t1"


async def test_a_waiting_task_gets_its_message_switches_mode_and_can_be_replaced():
    async with play(first_message="and now in cents") as played:
        played.host.tell(Asked(ask_id="a8", ask=AskKind.RESUME_TASK))
        await played.settle()
        assert [each.text for each in played.sent(Answer)] == ["and now in cents"]
        await played.type("/mode architect")
        await played.press("enter")
        await played.settle()
        assert played.sent(SwitchMode) == [SwitchMode(task_id="t1", mode="architect")]
        await played.press("f8")
        assert len(played.sent(SwitchMode)) == 2
        played.host.tell(RequestStarted(request_id="r", model="m"))
        await played.settle()
        await played.press("f8")
        assert len(played.sent(SwitchMode)) == 2, "the mode does not change while a request runs"
        played.host.tell(StepCancelled(), Asked(ask_id="a9", ask=AskKind.RESUME_TASK))
        await played.settle()
        await played.type("/new")
        await played.press("enter")
        await played.settle()
        assert played.sent(CloseTask) == [CloseTask(task_id="t1")]
        assert "What should I do?" in played.screen


async def test_a_message_reopens_a_closed_task():
    async with play() as played:
        played.host.tell(TaskClosed())
        played.host.end()
        await played.settle()
        await played.type("go on")
        await played.press("enter")
        await played.settle()
        assert played.sent(ReopenTask) == [ReopenTask(task_id="t1")]
        played.host.tell(Asked(ask_id="a8", ask=AskKind.RESUME_TASK))
        await played.settle()


async def test_a_child_is_shown_below_its_call_and_its_answers_go_to_it():
    async with play() as played:
        host = played.host
        reading(host)
        title = "Sub-task in code mode"
        host.tell(ToolStarted(call_id="k", tool="new_task", title=title, child="t2"))
        host.tell(TaskOpened(text="the inner task", parent="t1", depth=1), task="t2")
        host.tell(RequestStarted(request_id="q", model="m"), task="t2")
        host.tell(TextStreamed(request_id="q", text="Inner words."), task="t2")
        host.tell(ChildBegan(call_id="k", task_id="t2"))
        await played.settle()
        at = next(n for n, line in enumerate(played.lines) if title in line)
        assert played.lines[at + 2].strip().startswith("│ › the inner task")
        assert "│   Inner words." in played.screen
        spoke = AssistantSpoke(request_id="q", blocks=(Text(text="Inner words."),))
        host.tell(spoke, EDIT, task="t2")
        await played.ripen()
        await played.press("y")
        assert [answer.task_id for answer in played.sent(Answer)] == ["t2"]
        host.tell(Answered(ask_id="a1", ask=AskKind.TOOL, reply="yes"), TaskClosed(), task="t2")
        host.end("t2")
        host.tell(ToolFinished(call_id="k", text="done"))
        host.tell(RequestStarted(request_id="r9", model="m"))
        host.tell(TextStreamed(request_id="r9", text="Outer words."))
        await played.settle()
        inner = next(n for n, line in enumerate(played.lines) if "Inner words" in line)
        outer = next(n for n, line in enumerate(played.lines) if "Outer words" in line)
        assert inner < outer
        assert "│" not in played.lines[outer]


async def test_an_agent_at_work_is_shown_in_the_conversation_of_its_session():
    async with play() as played:
        host = played.host
        reading(host)
        host.tell(ToolStarted(call_id="k", tool="run_agents", title="Start 2 agents", child="t2"))
        for child, name in (("t2", "finder"), ("t3", "builder")):
            host.tell(TaskOpened(text=f"work of {name}", parent="t1", depth=1), task=child)
            host.tell(RequestStarted(request_id="q", model="m"), task=child)
            host.tell(TextStreamed(request_id="q", text="Words.\n\n" * 30), task=child)
            host.tell(ChildBegan(call_id="k", task_id=child, name=name))
        await played.settle()
        assert "› work of builder" not in played.screen
        await played.app.open_task("t3")
        await played.see("› work of builder")
        host.tell(EDIT, task="t2")
        await played.ripen()
        await played.app.open_task("elsewhere")
        await played.see("A task is running.")
        await played.app.open_task("t2")
        assert not played.sent(ReopenTask)
        assert not played.sent(CloseTask)


async def test_a_question_fits_any_terminal_size():
    async with play() as played:
        asking_about_an_edit(played.host)
        for size in ((80, 24), (40, 12), (160, 48), (60, 20)):
            await played.pilot.resize_terminal(*size)
            await played.ripen()
            assert "Edit prices.py?" in played.screen, size
            assert "y yes" in played.screen, size


async def test_an_action_can_be_read_in_full_on_a_small_screen():
    async with play() as played:
        for size in ((40, 14), (30, 12)):
            await played.pilot.resize_terminal(*size)
            await played.ask(COMMAND)
            read: list[str] = []
            for _ in range(20):
                read += [line for line in played.lines if line not in read]
                await played.press("down")
            seen = "".join("\n".join(read).replace("↪", "").split())
            for part in (
                "Run this command?",
                "rm -rf build",
                "python -m",
                "deletes 40",
                "uses the",
            ):
                assert "".join(part.split()) in seen, (part, size)
            assert "y yes" in played.screen


async def test_oneshot_accepts_the_result_and_exits():
    async with play(ui=UiSettings(oneshot=True)) as played:
        completed(played.host)
        await played.settle()
        assert [(each.reply, each.by) for each in played.sent(Answer)] == [("yes", "policy")]
        played.host.tell(TaskClosed())
        played.host.end()
        await played.settle()
    assert played.app.return_value
    assert played.app.return_value.fate is Fate.COMPLETED


async def test_oneshot_exits_a_failed_task_with_the_reason():
    async with play(ui=UiSettings(oneshot=True)) as played:
        played.host.tell(TaskFailed(message="It broke."))
        played.host.end()
        await played.settle()
    assert played.app.return_value == RunEnd(Fate.FAILED, "It broke.", "task_failed")


async def test_commands_files_and_todos_are_listed_below_the_input():
    async with play() as played:
        await played.type("/")
        await played.see("/new")
        assert "/checkpoints" in played.screen
        await played.type("help")
        await played.press("enter")
        await played.see("Everywhere")
        await played.press("escape")
        await played.until(lambda: len(played.app.screen_stack) == 1)
        assert played.composer.text == ""
        assert played.sent(Cancel) == []
        played.host.answer(AskPaths, (FoundPath(path="src/prices.py"), FoundPath(path="src")))
        await played.type("look at @pri")
        await played.see("src/prices.py")
        await played.press("tab")
        await played.settle()
        assert played.composer.text == "look at @/src/prices.py "
        assert "src/prices.py" not in "\n".join(played.lines[-2:])
        played.composer.empty()
        await played.press("ctrl+t")
        await played.settle()
        assert "There is no to-do list" in played.screen
        reading(played.host)
        await played.settle()
        await played.press("ctrl+t")
        await played.see("33%")
        await played.press("escape")
        await played.until(lambda: "33%" not in played.screen)


async def test_a_message_refused_by_a_hook_is_back_in_the_input():
    async with play() as played:
        played.host.tell(
            PromptRefused(of=1, text="first words", reason="Not those."),
            Asked(ask_id="q1", ask=AskKind.RESUME_TASK),
        )
        await played.settle()
        assert played.app._page.composer.text == "first words"
