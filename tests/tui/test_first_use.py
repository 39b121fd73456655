"""What a new user meets in the full screen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from textual.worker import WorkerFailed

from rookery.core.asks import AskKind
from rookery.core.commands import (
    Answer,
    Cancel,
    Command,
    DeleteTask,
    OpenTask,
    ReopenTask,
    Speak,
    SwitchModel,
)
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Pausing,
    RequestFailed,
    RequestStarted,
    StepCancelled,
    TextStreamed,
)
from rookery.core.limits import KEY_NOT_ACCEPTED, FailureKind
from rookery.core.modes import Level
from rookery.core.queries import AskCommands, AskModels, KnownCommand, KnownModel
from rookery.errors import CommandRejected, StorageError
from rookery.tui.app import FullScreen
from rookery.tui.input_router import TYPED_AHEAD
from rookery.tui.pickers import Picker
from rookery.tui.screens.choice_screens import ModelScreen, ModeScreen
from rookery.tui.task_controller import StartOptions
from support.scripted_host import ScriptedHost
from support.tui_scenes import (
    COMMAND,
    EDIT,
    FOLLOWUP,
    TASK,
    asking_about_a_command,
    reading,
    working,
)
from support.tui_session import Play, play

pytestmark = pytest.mark.anyio
HELD = "Session t7 is open in process 12. Close it there, or start another."


class HeldHost(ScriptedHost):
    """A host where task t7 is open in another terminal."""

    async def send(self, command: Command) -> None:
        match command:
            case ReopenTask(task_id="t7") | DeleteTask(task_id="t7"):
                raise StorageError(HELD)
            case SwitchModel(model="nosuch"):
                raise CommandRejected("No key for nosuch.")
            case _:
                await super().send(command)


@asynccontextmanager
async def new_screen(**opening: Any) -> AsyncIterator[Play]:
    host = HeldHost()
    app = FullScreen(host, StartOptions(home="/home/ada", **opening))
    async with app.run_test(size=(80, 24)) as pilot:
        played = Play(app, host, pilot)
        await played.settle()
        yield played


async def test_a_task_that_is_open_elsewhere_is_reported_and_nothing_else_changes():
    async with new_screen(first=OpenTask(task_id="t1", text=TASK)) as played:
        played.host.tell(Asked(ask_id="a8", ask=AskKind.RESUME_TASK))
        await played.settle()
        await played.app.open_task("t7")
        await played.see("is open in process 12")
        assert played.app.task_id == "t1"
        assert not await played.app.send(DeleteTask(task_id="t7"))


async def test_a_task_that_cannot_be_opened_at_start_ends_with_its_own_error():
    with pytest.raises((WorkerFailed, StorageError)):  # noqa: PT012 (it ends on its way out)
        async with new_screen(first=ReopenTask(task_id="t7")) as played:
            app = played.app
            await played.until(lambda: app.crash is not None)
            assert isinstance(app.crash, StorageError)
            assert str(app.crash) == HELD


async def test_another_model_can_be_chosen_after_a_failed_request():
    async with play() as played:
        await played.ask(Asked(ask_id="a", ask=AskKind.API_REQ_FAILED, text="No credit."))
        assert "/model another model" in played.screen
        await played.type("/model b-model")
        await played.press("enter")
        await played.until(lambda: bool(played.sent(SwitchModel)))
        assert played.panel.asked


@pytest.mark.parametrize("typed", ["/init", "/architect"])
async def test_a_complete_command_runs_at_the_first_enter(typed: str):
    """`/init` is a command of the model, `/architect` a mode."""
    async with play(task=False) as played:
        played.host.answer(AskCommands, (KnownCommand(name="init", description="Write it"),))
        await played.type(typed)
        await played.until(lambda: bool(played.app.query(Picker)))
        await played.press("enter")
        if typed == "/init":
            await played.until(lambda: [each.text for each in played.sent(OpenTask)] == [typed])
        else:
            await played.see("architect · ")


async def test_a_bare_word_exits_unless_the_model_has_asked():
    word = "Quit"
    async with play() as played:
        await played.ask(FOLLOWUP)
        played.composer.focus()
        await played.type(word)
        await played.press("enter")
        await played.until(lambda: [each.text for each in played.sent(Answer)] == [word])
        played.host.sent.clear()
        await played.ask(COMMAND)
        played.composer.focus()
        await played.type(word)
        await played.press("enter")
        await played.until(lambda: not played.app.is_running)
        assert played.sent(Answer) == []


async def test_a_rejected_key_offers_to_enter_another():
    async with play() as played:
        for text, offered in ((f"openai {KEY_NOT_ACCEPTED} x.", True), ("No credit.", False)):
            await played.ask(Asked(ask_id="a", ask=AskKind.API_REQ_FAILED, text=text))
            assert ("/login another key" in played.screen) == offered


async def test_a_word_in_the_input_answers_like_its_key():
    async with play() as played:
        for word, reply in (("y", "yes"), ("Yes", "yes"), ("no", "no")):
            await played.ask(COMMAND)
            played.composer.focus()
            await played.type(word)
            await played.press("enter")
            sent = [(each.reply, each.text) for each in played.sent(Answer)]
            assert sent == [(reply, "")], word


@pytest.mark.parametrize("word", ["y", "yes"])
async def test_a_word_started_before_the_question_was_visible_answers_nothing(
    word: str,
):
    async with play() as played:
        asking_about_a_command(played.host)
        await played.settle()
        await played.type(word + "x")
        await played.press("backspace")
        await played.ripen()
        await played.press("enter")
        assert played.sent(Answer) == []
        assert played.sent(Speak) == []
        if word != "y":  # "y" counts as a key pressed too early and is dropped
            await played.see(TYPED_AHEAD[:40])


async def test_tab_goes_to_the_question_first_and_a_second_escape_stops_the_task():
    async with play() as played:
        await played.ask(EDIT)
        page = played.app._page
        page.composer.focus()
        places = []
        for _ in range(4):
            await played.press("tab")
            places.append(played.app.focused)
        assert places == [page.panel, page.transcript, page.panel, page.composer]
        await played.ask(EDIT)
        await played.press("escape")
        assert "Press Esc again to stop." in played.screen
        assert page.composer.has_focus
        assert played.sent(Cancel) == []
        await played.press("escape")
        assert played.sent(Cancel) == [Cancel(task_id="t1")]


async def test_pages_scroll_the_conversation_from_anywhere_also_while_it_streams():
    async with play() as played:
        working(played.host)
        words = "\n\n".join(f"paragraph {n}" for n in range(60))
        played.host.tell(TextStreamed(request_id="r2", text=words))
        await played.settle()
        await played.press("pageup", "pageup")
        place = played.app._page.transcript.scroll_y
        assert "End follows" in played.screen
        played.host.tell(TextStreamed(request_id="r2", text="\n\nmore"))
        await played.settle()
        assert played.app._page.transcript.scroll_y == place
        played.host.tell(AssistantSpoke(request_id="r2", blocks=()), COMMAND)
        await played.ripen()
        played.app._page.panel.focus()
        await played.press("pageup")
        assert played.app._page.transcript.scroll_y < place
        await played.press("end")
        assert "End follows" not in played.screen


async def test_end_follows_the_conversation_from_an_empty_input():
    async with play() as played:
        working(played.host)
        words = "\n\n".join(f"paragraph {n}" for n in range(60))
        played.host.tell(TextStreamed(request_id="r2", text=words))
        await played.settle()
        await played.press("pageup", "pageup")
        await played.type("a b")
        await played.press("home", "end")
        await played.type("c")
        assert (played.composer.text, "End follows" in played.screen) == ("a bc", True)
        await played.press(*["backspace"] * 4, "end")
        await played.settle()
        assert "End follows" not in played.screen


async def test_text_typed_at_the_conversation_and_unknown_commands_stay_in_the_input():
    async with play() as played:
        reading(played.host)
        await played.settle()
        played.app._page.transcript.focus()
        await played.type("hello j")
        assert played.composer.has_focus
        assert played.composer.text == "hello j"
        played.composer.empty()
        await played.type("/nosuch foo")
        await played.press("enter")
        await played.see("No such command: /nosuch.")
        assert played.composer.text == "/nosuch foo"


async def test_a_model_chosen_before_the_first_task_applies_to_all_later_ones():
    async with new_screen() as played:
        model = KnownModel(provider="openai", model="gpt-5.2")
        played.host.answer(AskModels, (model,))
        await played.type("/model gpt-5.2")
        await played.press("enter")
        await played.settle()
        assert "gpt-5.2" in played.lines[0]
        played.host.sent.clear()
        for words in ("one", "two"):
            await played.type(words)
            await played.press("enter")
            await played.settle()
            opened = played.host.sent[-1]
            assert isinstance(opened, OpenTask)
            assert (opened.provider, opened.model) == ("openai", "gpt-5.2")
            played.host.tell(Asked(ask_id="a8", ask=AskKind.RESUME_TASK), task=opened.task_id)
            await played.settle()
            await played.app.new_task()
            await played.settle()


async def test_text_typed_before_the_screen_opened_is_in_the_input():
    async with new_screen(draft="fix the bug") as played:
        assert played.app._page.composer.text == "fix the bug"
        assert not played.host.sent


async def test_modes_and_models_are_listed_before_the_first_task_with_the_choice_marked():
    async with new_screen() as played:
        known = [KnownModel(provider="openai", model=each) for each in ("gpt-5.1", "gpt-5.2")]
        played.host.answer(AskModels, tuple(known))
        assert not await played.app.send(SwitchModel(task_id="", provider="x", model="nosuch"))
        await played.see("No key for nosuch.")
        assert "nosuch" not in played.lines[0]
        for command, name, shown in (
            ("/mode", "architect", "Architect"),
            ("/model", "gpt-5.2", ""),
        ):
            for typed in (f"{command} {name}", command):
                await played.type(typed)
                await played.press("enter")
                await played.settle()
            await played.see(shown or name)
            screen = played.app.screen
            assert isinstance(screen, ModeScreen | ModelScreen)
            assert screen.name_of(screen.list.marked).endswith(name)
            await played.press("escape")
            await played.until(lambda: len(played.app.screen_stack) == 1)
        await played.press("f1")
        await played.see("Everywhere")
        assert "Shift+Tab" in played.screen
        assert "Ctrl+M" not in played.screen, "help shows only keys that work on every terminal"


async def test_auto_approve_chosen_before_a_task_applies_to_that_task_only():
    async with new_screen() as played:
        await played.type("/approve on")
        await played.press("enter")
        await played.settle()
        assert "auto-approve" in played.lines[0]
        await played.type("go")
        await played.press("enter")
        await played.settle()
        (opened,) = played.sent(OpenTask)
        assert opened.level is Level.AUTO
        played.host.tell(Asked(ask_id="a8", ask=AskKind.RESUME_TASK), task=opened.task_id)
        await played.settle()
        await played.app.new_task()
        await played.settle()
        assert "auto-approve" not in played.lines[0]


def _unreachable(played: Play, request: str, attempt: int) -> None:
    why = "The server cannot be reached."
    played.host.tell(
        RequestStarted(request_id=request, model="m", attempt=attempt),
        RequestFailed(request_id=request, error=FailureKind.OFFLINE, message=why),
        Pausing(seconds=8.0, reason=why),
    )


async def test_a_retried_request_is_one_row_with_a_count():
    async with play(size=(100, 30)) as played:
        for attempt in range(1, 5):
            _unreachable(played, f"r{attempt}", attempt)
        await played.settle()
        assert played.screen.count("cannot be reached") == 1
        assert "tried 4 times" in played.screen
        assert "trying again in 8 s" in played.screen
        _unreachable(played, "q1", 1)
        await played.settle()
        assert played.screen.count("cannot be reached") == 2


@pytest.mark.parametrize("kind", [AskKind.API_REQ_FAILED, AskKind.INVALID_MODEL])
async def test_the_last_failure_replaces_the_rows_of_the_attempts_before_it(kind: AskKind):
    why = "The server cannot be reached."
    async with play(size=(100, 30)) as played:
        _unreachable(played, "r1", 1)
        await played.settle()
        played.host.tell(
            RequestStarted(request_id="r2", model="m", attempt=2),
            RequestFailed(request_id="r2", error=FailureKind.OFFLINE, message=why),
            Asked(ask_id="a2", ask=kind, text=why),
        )
        await played.settle()
        assert "cannot be reached. (tried 2 times)" in played.screen
        assert played.screen.count("The server cannot be reached.") == 1
        played.host.tell(
            Answered(ask_id="a2", ask=kind, reply="yes", text="", by="user"),
            RequestStarted(request_id="r3", model="m", attempt=1),
            RequestFailed(request_id="r3", error=FailureKind.OFFLINE, message=why),
            Asked(ask_id="a3", ask=kind, text=why),
        )
        await played.settle()
        assert "cannot be reached. (tried 3 times)" in played.screen
        assert played.screen.count("The server cannot be reached.") == 1


async def test_a_session_that_is_stopped_twice_says_so_once():
    async with play(size=(100, 30)) as played:
        for number in range(3):
            played.host.tell(Asked(ask_id=f"a{number}", ask=AskKind.RESUME_TASK, text=""))
            await played.settle()
        assert played.screen.count("Stopped.") == 1


async def test_a_long_action_is_not_approved_before_its_end_was_visible():
    async with play(size=(60, 16)) as played:
        long = "\n".join(f"echo {n}" for n in range(40))
        reading(played.host)
        played.host.tell(replace(COMMAND, text=long))
        await played.ripen()
        assert "more lines, then" in played.screen
        await played.press("y")
        assert played.sent(Answer) == []
        assert "Read to the end first: press End" in played.screen
        played.app._page.composer.focus()
        await played.type("yes")
        await played.press("enter")
        assert played.sent(Answer) == []
        played.app._page.panel.focus()
        await played.press(*["pagedown"] * 20)
        await played.press("y")
        assert [each.reply for each in played.sent(Answer)] == ["yes"]


async def test_end_shows_the_end_of_a_long_diff():
    async with play() as played:
        lines = "\n".join(f"+{'word ' * (n % 40)}{n}" for n in range(3000))
        played.host.tell(replace(EDIT, diff=f"@@ -0,0 +1,3000 @@\n{lines}"))
        await played.ripen()
        await played.press("end")
        await played.see(" 2999")
        await played.press("y")
        assert [each.reply for each in played.sent(Answer)] == ["yes"]


async def test_a_rule_needs_the_whole_action_to_be_read():
    async with play(size=(60, 16)) as played:
        long = "\n".join(f"+line {n}" for n in range(40))
        played.host.tell(replace(EDIT, diff=f"@@ -0,0 +1,40 @@\n{long}"))
        await played.ripen()
        await played.press("a")
        await played.ripen()
        assert "more lines, then y yes" in played.screen


async def test_a_stopped_task_is_shown_as_stopped():
    async with play() as played:
        working(played.host)
        played.host.tell(StepCancelled(), Asked(ask_id="a8", ask=AskKind.RESUME_TASK))
        await played.settle()
        assert "· Stopped." in played.screen
