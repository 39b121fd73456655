"""Slash lines that the client handles itself, and the commands they send."""

import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import (
    Answer,
    Condense,
    EditQueue,
    RestoreFiles,
    Rewind,
    StopCommand,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    CheckpointSaved,
    ChildBegan,
    CommandDetached,
    CommandEnded,
    Event,
    Fact,
    FilesChanged,
    FilesRestored,
    ModelSwitched,
    ModeSwitched,
    OfferWithdrawn,
    OutputStreamed,
    QueueEdited,
    RequestStarted,
    StepCancelled,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.modes import Level
from rookery.protocol.client_commands import (
    HELP,
    LineOutcome,
    SlashLines,
    Vocabulary,
    no_such_command,
)
from rookery.protocol.slash_words import ALIASES, ANSWERS
from rookery.tui.own_commands import COMMANDS
from support.each_row import each_row

KNOWN = Vocabulary(commands=[("init", "Look around")], modes=("code", "ask"))


def test_a_custom_command_goes_to_the_model_and_is_in_the_help():
    slash = SlashLines("t", (), KNOWN)
    assert slash.handle("/init the tests") is None
    reported = slash.handle("/help")
    assert reported
    assert "/init  Look around" in reported.words
    assert slash.handle("/unit")


def test_a_mode_is_switched_by_name_or_the_modes_are_listed():
    slash = SlashLines("t", (), KNOWN)
    assert slash.handle("/mode ask") == LineOutcome((SwitchMode(task_id="t", mode="ask"),))
    for line in ("/mode", "/mode poet"):
        reported = slash.handle(line)
        assert reported
        assert not reported.commands
        assert reported.words.endswith("one of: code, ask.")


@each_row(
    ("line", "like"),
    [
        ("/compact", "/condense"),
        ("/usage", "/cost"),
        ("/settings", "/config"),
        ("/exit", "/quit"),
        ("/models", "/model"),
    ],
)
def test_flags_of_other_agents_do_the_same(line: str, like: str):
    assert SlashLines("t").handle(line)
    assert SlashLines("t").handle(line) == SlashLines("t").handle(like)


def test_a_command_of_the_project_comes_before_another_agents_word():
    known = Vocabulary(commands=[("clear", "Clear the cache")])
    assert SlashLines("t", vocabulary=known).handle("/clear") is None
    outcome = SlashLines("t").handle("/clear")
    assert outcome
    assert "one session" in outcome.words


def test_every_word_of_another_agent_names_a_command_that_exists():
    screen = {each.name for each in COMMANDS}
    assert set(ALIASES.values()) <= screen
    assert not screen & {*ALIASES, *ANSWERS}


def test_the_conversation_can_be_condensed_by_hand():
    assert SlashLines("t").handle("/condense") == LineOutcome((Condense(task_id="t"),))


def test_condensing_is_about_the_working_task():
    slash = watching(opened(), ChildBegan(call_id="c", task_id="child"))
    assert slash.handle("/condense") == LineOutcome((Condense(task_id="child"),))
    for event in numbered([opened(), ChildBegan(call_id="d", task_id="grandchild")]):
        slash.show(event, "child")
    assert slash.handle("/condense") == LineOutcome((Condense(task_id="grandchild"),))
    for event in numbered([opened(), ToolFinished(call_id="d", text="")]):
        slash.show(event, "child")
    assert slash.handle("/condense") == LineOutcome((Condense(task_id="child"),))
    for end in (ToolFinished(call_id="c", text=""), StepCancelled()):
        after = watching(opened(), ChildBegan(call_id="c", task_id="child"), end)
        assert after.handle("/condense") == LineOutcome((Condense(task_id="t"),))


def test_bg_and_stop_apply_to_a_childs_command():
    slash = SlashLines("t")
    for event in numbered([opened(), *began("c"), offered("o")]):
        slash.show(event, "child")
    assert slash.handle("/stop") == LineOutcome((Answer(task_id="child", ask_id="o", reply="no"),))


NOTHING_RUNS = LineOutcome(words="No command is running.")


def opened(text: str = "go") -> Fact:
    return TaskOpened(text=text, mode="code", workspace="/srv")


def step(call_id: str, title: str, *, changed: bool = True, at: int = 0) -> list[Fact]:
    """A call with its checkpoint and its file changes (since event `at`)."""
    after = f"after {call_id}" if changed else f"before {call_id}"
    return [
        CheckpointSaved(id=f"before {call_id}", call_id=call_id),
        ToolStarted(call_id=call_id, tool="edit", title=title),
        ToolFinished(call_id=call_id, text=""),
        FilesChanged(call_id=call_id, before=f"before {call_id}", after=after, since=at),
    ]


def began(call_id: str) -> list[Fact]:
    return [ToolStarted(call_id=call_id, tool="execute_command", title="Run x", command="x")]


def offered(ask_id: str) -> Fact:
    return Asked(ask_id=ask_id, ask=AskKind.COMMAND_OUTPUT)


def detached(call_id: str) -> Fact:
    return CommandDetached(call_id=call_id, command="sleep 9", artifact="a1")


def ended(call_id: str) -> Fact:
    return CommandEnded(call_id=call_id, text="It ended.")


def numbered(facts: list[Fact]) -> list[Event]:
    return [Event(seq, 0, seq, fact) for seq, fact in enumerate(facts, 1)]


def watching(*facts: Fact) -> SlashLines:
    slash = SlashLines("t")
    for event in numbered(list(facts)):
        slash.show(event)
    return slash


def back(to: int, *, words: bool = True) -> LineOutcome:
    restore = RestoreFiles(task_id="t", to=to)
    return LineOutcome(commands=(restore, Rewind(task_id="t", to=to)) if words else (restore,))


def answer(ask_id: str, reply: str) -> LineOutcome:
    return LineOutcome(commands=(Answer(task_id="t", ask_id=ask_id, reply=reply),))


@each_row(
    "line", ["", "yes", "undo", "/", "/usr/bin is full", "/ undo", "see /undo", "/UNDO", "/a.b"]
)
def test_any_other_line_goes_to_the_model(line: str):
    assert watching(opened(), *step("c1", "Edit a")).handle(line) is None


@each_row("line", ["/undoit", "/undp now"])
def test_a_mistyped_command_is_not_sent_and_similar_ones_are_named(line: str):
    name = line.split()[0]
    words = f"No such command: {name}. Known: /undo. /help lists all."
    assert watching(opened()).handle(line) == LineOutcome(words=words)


def test_a_file_path_is_not_a_command():
    assert watching(opened()).handle("/tmp is full") is None


@each_row("line", ["/help", "  /help  ", "/help me"])
def test_help_lists_every_command(line: str):
    assert watching().handle(line) == LineOutcome(words=HELP)
    for name in ("/undo", "/rewind", "/files", "/bg", "/stop", "/model", "/approve", "/queue"):
        assert name in HELP


class TestUndoAndRewind:
    def test_undo_rewinds_to_before_the_last_file_change(self):
        slash = watching(
            opened(), *step("c1", "Edit a"), *step("c2", "Edit b"), *step("c3", "x", changed=False)
        )
        assert slash.handle("/undo") == back(5)

    def test_undo_includes_a_command_whose_changes_are_not_recorded_yet(self):
        unrecorded = step("c2", "Run x")[:-1]
        slash = watching(opened(), *step("c1", "Edit a"), *unrecorded)
        assert slash.handle("/undo") == back(5)

    def test_a_second_undo_does_not_redo_the_change(self):
        restored = FilesRestored(to=1, before="b", after="a", paths=("a",), count=1)
        slash = watching(opened(), *step("c1", "Edit a", at=2), restored)
        assert slash.handle("/undo").words.startswith("Nothing to undo")

    @each_row("facts", [[], [opened()], [opened(), *step("c", "x", changed=False)]])
    def test_without_a_change_there_is_nothing_to_undo(self, facts: list[Fact]):
        assert watching(*facts).handle("/undo") == LineOutcome(
            words="Nothing to undo: no step is left that changed files."
        )

    def test_rewind_and_files_take_a_number(self):
        slash = watching(opened(), *step("c1", "Edit a"))
        assert slash.handle("/rewind 1") == back(1)
        assert slash.handle("/rewind   5 ") == back(5)
        assert slash.handle("/files 2") == back(2, words=False)

    @each_row("line", ["/rewind", "/rewind 0", "/rewind 6", "/rewind -1"])
    def test_without_a_valid_number_the_points_are_listed(self, line: str):
        long = "Edit " + "x" * 100 + "\nand more"
        slash = watching(opened("first\nsecond"), *step("c1", long))
        received = slash.handle(line)
        assert received is not None
        assert received.commands == ()
        number = line.partition(" ")[2]
        assert received.words.splitlines() == [
            "    1  first",
            "    1  Edit " + "x" * 64 + "…",
            *([f"No such point: {number}."] if number else []),
            "To rewind to before a step: /rewind NUMBER",
        ]

    def test_only_the_last_points_are_listed(self):
        said = [UserSpoke(message_id=str(n), text=f"word {n}") for n in range(50)]
        received = watching(opened(), *said).handle("/rewind")
        assert received is not None
        assert len(received.words.splitlines()) == 21
        assert "word 49" in received.words
        assert "word 29" not in received.words

    def test_stored_events_count_as_points_and_streamed_ones_do_not(self):
        slash = SlashLines("t", numbered([opened(), *step("c1", "Edit a")]))
        slash.show(Event(6, 0, 6, OutputStreamed(call_id="c1", text="words")))
        assert slash.handle("/undo") == back(1)
        assert slash.handle("/rewind 6") != back(6)


class TestCommands:
    def test_bg_and_stop_without_a_running_command_say_so(self):
        assert watching(opened()).handle("/bg") == NOTHING_RUNS
        assert watching(opened()).handle("/stop") == NOTHING_RUNS

    def test_the_running_command_is_sent_to_the_background_or_ended(self):
        slash = watching(opened(), offered("q1"))
        assert slash.handle("/bg") == answer("q1", "yes")
        assert slash.handle("/stop") == answer("q1", "no")

    @pytest.mark.parametrize(
        "over",
        [
            OfferWithdrawn(ask_id="q1"),
            Answered(ask_id="q1", ask=AskKind.COMMAND_OUTPUT, reply="no"),
        ],
        ids=["withdrawn", "answered"],
    )
    def test_a_closed_offer_is_not_answered(self, over: Fact):
        assert watching(opened(), offered("q1"), over).handle("/stop") == NOTHING_RUNS

    def test_the_end_of_another_offer_changes_nothing(self):
        slash = watching(opened(), offered("q1"), OfferWithdrawn(ask_id="q0"))
        assert slash.handle("/bg") == answer("q1", "yes")

    def test_stop_ends_the_newest_background_command(self):
        slash = watching(opened(), detached("c1"), detached("c2"))
        assert slash.handle("/stop") == LineOutcome((StopCommand(task_id="t", call_id="c2"),))
        slash.show(Event(4, 0, 4, ended("c2")))
        assert slash.handle("/stop") == LineOutcome((StopCommand(task_id="t", call_id="c1"),))
        slash.show(Event(5, 0, 5, ended("c1")))
        assert slash.handle("/stop") == NOTHING_RUNS

    def test_a_background_command_cannot_be_sent_to_the_background_again(self):
        assert watching(opened(), detached("c1")).handle("/bg") == NOTHING_RUNS

    @each_row("line", ["/bg", "/stop"])
    def test_a_command_that_has_just_started_counts_as_running(self, line: str):
        slash = watching(opened(), detached("c1"), *began("c2"))
        received = slash.handle(line)
        assert received is not None
        assert received.commands == ()
        assert received.words.startswith("The command has only just started.")

    def test_a_finished_or_detached_call_no_longer_counts_as_just_started(self):
        slash = watching(opened(), *began("c1"), ToolFinished(call_id="c1", text=""))
        assert slash.handle("/stop") == NOTHING_RUNS
        slash = watching(
            opened(), *began("c1"), detached("c1"), ToolFinished(call_id="c1", text="")
        )
        assert slash.handle("/stop") == LineOutcome((StopCommand(task_id="t", call_id="c1"),))

    def test_the_foreground_command_comes_first(self):
        slash = watching(opened(), detached("c1"), offered("q1"))
        assert slash.handle("/stop") == answer("q1", "no")


class TestChoices:
    def test_the_current_mode_is_marked(self):
        slash = SlashLines("t", numbered([opened()]), KNOWN)
        reported = slash.handle("/mode")
        assert reported
        assert reported.words.endswith("one of: code (now), ask.")
        slash.show(Event(2, 0, 2, ModeSwitched(mode="ask")))
        reported = slash.handle("/mode poet")
        assert reported
        assert reported.words.endswith("one of: code, ask (now).")

    MODELS = Vocabulary(models=[("anthropic", "claude-x"), ("openai", "gpt-x")])

    @each_row(
        ("line", "provider", "model"),
        [
            ("/model gpt-x", "openai", "gpt-x"),
            ("/model ollama qwen3", "ollama", "qwen3"),
            ("/model unheard-of", "", "unheard-of"),
        ],
    )
    def test_a_model_is_named_with_or_without_its_provider(
        self, line: str, provider: str, model: str
    ):
        wanted = SwitchModel(task_id="t", provider=provider, model=model)
        assert SlashLines("t", (), self.MODELS).handle(line) == LineOutcome((wanted,))

    def test_without_a_name_the_models_are_listed_and_the_current_one_marked(self):
        slash = SlashLines("t", (), self.MODELS)
        slash.show(Event(1, 0, 1, RequestStarted(request_id="r", model="gpt-x")))
        reported = slash.handle("/model")
        assert reported
        assert reported.words.splitlines()[:2] == ["  anthropic claude-x", "  openai gpt-x  (now)"]
        slash.show(Event(2, 0, 2, ModelSwitched(provider="anthropic", model="claude-x")))
        reported = slash.handle("/model")
        assert reported
        assert reported.words.splitlines()[0] == "  anthropic claude-x  (now)"

    def test_approve_switches_auto_approve_on_and_off(self):
        slash = SlashLines("t")
        assert slash.handle("/approve on") == LineOutcome(
            (SwitchApproval(task_id="t", automatic=True),)
        )
        assert slash.handle("/approve off") == LineOutcome(
            (SwitchApproval(task_id="t", automatic=False),)
        )
        reported = slash.handle("/approve")
        assert reported
        assert reported.words.startswith("Auto-approve is off.")
        slash.show(Event(1, 0, 1, ApprovalSwitched(automatic=True)))
        assert slash.level is Level.AUTO
        reported = slash.handle("/approve maybe")
        assert reported
        assert (reported.commands, reported.words[:19]) == ((), "Auto-approve is on.")

    def test_auto_approve_of_an_earlier_run_does_not_carry_over(self):
        stored = numbered([opened(), ApprovalSwitched(automatic=True)])
        assert SlashLines("t", stored).level is not Level.AUTO


class TestQueue:
    def said(self, *texts: str) -> list[Fact]:
        return [UserSpoke(message_id=text, text=text) for text in texts]

    def test_queued_messages_are_listed_and_can_be_dropped(self):
        slash = watching(opened(), *self.said("one\nmore", "two"))
        reported = slash.handle("/queue")
        assert reported
        assert reported.words.splitlines() == [
            "  1. one",
            "  2. two",
            "To remove one: /queue drop NUMBER",
        ]
        assert slash.handle("/queue drop 2") == LineOutcome(
            (EditQueue(task_id="t", message_id="two"),)
        )
        for line in ("/queue drop 3", "/queue drop", "/queue 1", "/queue drop x"):
            reported = slash.handle(line)
            assert reported
            assert reported.commands == ()

    @each_row(
        "over",
        [RequestStarted(request_id="r", model="m"), QueueEdited(message_id="one", text=None)],
    )
    def test_delivered_or_withdrawn_messages_are_not_queued(self, over: Fact):
        slash = watching(opened(), *self.said("one"), over)
        assert slash.handle("/queue") == LineOutcome(words="No queued messages.")

    def test_an_edited_message_is_listed_with_its_new_text(self):
        edited = QueueEdited(message_id="one", text="three")
        reported = watching(opened(), *self.said("one"), edited).handle("/queue")
        assert reported
        assert reported.words.splitlines()[0] == "  1. three"

    def test_dropping_a_childs_message_goes_to_the_child(self):
        slash = watching(opened())
        for event in numbered(self.said("one")):
            slash.show(event, "child")
        assert slash.handle("/queue drop 1") == LineOutcome(
            (EditQueue(task_id="child", message_id="one"),)
        )


@each_row(
    ("line", "wrong"),
    [
        ("/int the tests", "No such command: /int. Known: /init."),
        ("/xyz", "No such command: /xyz. /help lists all."),
        ("/init", ""),
        ("/tmp is full", ""),
        ("/usr/bin is full", ""),
        ("see /xyz", ""),
    ],
)
def test_an_unknown_command_is_answered_with_the_known_ones(line: str, wrong: str):
    assert no_such_command(line, ["init", "review"], "/help lists all.") == wrong
