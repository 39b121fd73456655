"""Slash commands that the client handles instead of the model."""

import os.path
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import reduce
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from rookery.core.asks import AskKind, Reply
from rookery.core.commands import (
    Answer,
    CloseTask,
    Command,
    Condense,
    EditQueue,
    RemoveRule,
    RestoreFiles,
    Rewind,
    SelectIntent,
    StopCommand,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.event_list import EventList
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    ChildBegan,
    CommandDetached,
    CommandEnded,
    Event,
    OfferWithdrawn,
    StepCancelled,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.points import NOTHING_TO_UNDO, last_change, points
from rookery.core.folds.view import View, see, view_from
from rookery.core.modes import ALWAYS_ASK, CYCLE, Level, level_named
from rookery.core.queries import Permissions, ViewStart
from rookery.core.text.terminal_text import shortened, visible_line
from rookery.protocol.slash_words import ALIASES, ANSWERS, IN_PLAIN, only_in_a_session

if TYPE_CHECKING:
    from rookery.core.folds.agent_rows import AgentRows

HELP = """\
/undo            undo the last change to files and the conversation since
/rewind          list the points to rewind to; /rewind N goes there
/files N         restore only the files
/bg              move the running command to the background; /stop ends it
/tree            list the agents; /stop NAME ends one
/mode NAME       switch the mode; without a name, list them
/model NAME      switch the model; without a name, list them
/intent ID       select another intent; without an id, list them
/permissions     show the level and the rules; /permissions LEVEL changes the level
/approve on|off  act without asking, or ask again
/queue           list queued messages; /queue drop N removes one
/condense        summarise the conversation; /compact is the same
/context         show how the context window is used
/memory          list the rule files in use
/diff            show what this session changed
/cost            show tokens and cost; /usage is the same
/config          show the model, the mode and where settings are
/quit            exit; the session is kept"""

_NAMES = ("help", *(line.split()[0].removeprefix("/") for line in HELP.splitlines()), "stop")
_COMMAND = re.compile(r"/(?P<name>[a-z][a-z0-9_-]*)(?=\s|$)")
NEAR_MISS = 0.65
NONE = "none"
"""The argument for no intent."""


def looks_like_a_command(line: str) -> bool:
    """Whether it is a slash and a word, and not a path on this machine."""
    found = _COMMAND.match(line.strip())
    return found is not None and not os.path.exists(found[0])


def no_such_command(line: str, known: Collection[str], more: str = "") -> str:
    """The error for a line with an unknown command; empty if it is known. `more` says where all
    are listed, if none is similar."""
    found = _COMMAND.match(line.strip())
    if not found or found["name"] in known or not looks_like_a_command(line):
        return ""
    if found["name"] in ANSWERS:
        return ANSWERS[found["name"]]
    if found["name"] in {*_NAMES, *ALIASES, *IN_PLAIN}:
        return only_in_a_session(found["name"])
    near = get_close_matches(found["name"], known, n=3, cutoff=NEAR_MISS)
    there = f"Known: {', '.join(f'/{name}' for name in near)}." if near else more
    return f"No such command: /{found['name']}. {there}".rstrip()


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What a line may name besides client commands: slash commands for the model, modes and
    models."""

    commands: Sequence[tuple[str, str]] = ()
    """Names and descriptions."""
    modes: Sequence[str] = ()
    models: Sequence[tuple[str, str]] = ()
    """Pairs of provider and model."""
    intents: Sequence[tuple[str, str]] = ()
    """Selectable intents with their descriptions."""


class LineOutcome(Struct, frozen=True):
    """The result of a line: commands for the host, and text for the user."""

    commands: tuple[Command, ...] = ()
    words: str = ""
    shows: Literal["", "changes", "context", "rules", "permissions"] = ""
    """What to fetch from the host and show: the changes of the session, the use of the context
    window, the rule files, or the permissions."""
    leaves: bool = False


def list_modes(modes: Sequence[str], now: str) -> str:
    shown = [f"{each} (now)" if each == now else each for each in modes]
    return f"Use /mode with one of: {', '.join(shown)}."


def list_models(models: Sequence[tuple[str, str]], now: str) -> str:
    rows = [
        f"  {provider} {model}{'  (now)' if model == now else ''}" for provider, model in models
    ]
    return "\n".join([*rows, "Use /model with a name, or PROVIDER NAME."])


class SlashLines:
    """Watches a task to know what a line refers to. Its first event follows `start`."""

    def __init__(
        self,
        task_id: str,
        stored: Sequence[Event] = (),
        vocabulary: Vocabulary = Vocabulary(),  # noqa: B008 (it never changes)
        *,
        level: Level = Level.ASK,
    ) -> None:
        """`level` is that of the run."""
        self._task_id = task_id
        self._events = stored.copy() if isinstance(stored, EventList) else EventList(stored)
        self.start = ViewStart()
        self._vocabulary = vocabulary
        # how an earlier run was allowed to act says nothing about this one
        self.level = level
        self._children: dict[str, SlashLines] = {}
        self._offer = ""
        self._waited_for = ""
        self._handed_on: dict[str, str] = {}
        self._detached: list[str] = []

    def show(self, event: Event, child: str = "") -> None:
        """Lines refer to the task itself, except those about what runs now."""
        if child:
            self._children.setdefault(child, SlashLines(child)).show(event)
            return
        if event.fact.lasting:
            self._events.append(event)
        match event.fact:
            case ApprovalSwitched(to=Level() as level) | Answered(level=Level() as level):
                self.level = level
            case Asked(ask=AskKind.COMMAND_OUTPUT, ask_id=ask_id):
                self._offer = ask_id
            case Answered(ask_id=ask_id) | OfferWithdrawn(ask_id=ask_id) if ask_id == self._offer:
                self._offer = ""
            case ToolStarted(call_id=call_id, command=command) if command:
                self._waited_for = call_id
            case ToolFinished(call_id=call_id) if call_id == self._waited_for:
                self._waited_for = ""
            case ChildBegan(call_id=call_id, task_id=task_id, name=""):
                self._handed_on[call_id] = task_id
            case ToolFinished(call_id=call_id):
                self._handed_on.pop(call_id, None)
            case StepCancelled():
                self._handed_on.clear()
            case CommandDetached(call_id=call_id):
                self._detached.append(call_id)
            case CommandEnded(call_id=call_id) if call_id in self._detached:
                self._detached.remove(call_id)
            case _:
                pass

    @property
    def _view(self) -> View:
        return reduce(see, self._events, view_from(self.start))

    def handle(self, line: str) -> LineOutcome | None:
        """Handle the line; None if it is for the model."""
        name, _, rest = line.strip().partition(" ")
        doings: dict[str, Callable[[str], LineOutcome]] = {
            "/help": lambda _: LineOutcome(words=self._help()),
            "/mode": self._switch,
            "/model": self._switch_model,
            "/intent": self._select_intent,
            "/permissions": self._about_permissions,
            "/approve": self._switch_approval,
            "/queue": self._about_queue,
            "/condense": lambda _: LineOutcome((Condense(task_id=self._at_work()),)),
            "/undo": lambda _: self._undo(),
            "/rewind": lambda to: self._go_back(to, files=True, words=True),
            "/files": lambda to: self._go_back(to, files=True, words=False),
            "/bg": lambda _: self._about_command("yes"),
            "/stop": lambda name: self._stop(name),
            "/tree": lambda _: LineOutcome(words=self._agent_rows().text),
            "/context": lambda _: LineOutcome(shows="context"),
            "/memory": lambda _: LineOutcome(shows="rules"),
            "/diff": lambda _: LineOutcome(shows="changes"),
            "/cost": lambda _: LineOutcome(words=self._cost()),
            "/config": lambda _: LineOutcome(words=self._config()),
            "/quit": lambda _: LineOutcome(leaves=True),
        }
        known = dict(self._vocabulary.commands)
        bare = name.removeprefix("/") if name.startswith("/") else ""
        ours = bare if bare in known else ALIASES.get(bare, bare)
        if f"/{ours}" in doings:
            return doings[f"/{ours}"](rest.strip())
        if bare in self._vocabulary.modes and bare not in known:
            return self._switch(bare)
        if ours in IN_PLAIN and ours not in known:
            return LineOutcome(words=IN_PLAIN[ours])
        wrong = no_such_command(line, {*known, *_NAMES})
        return LineOutcome(words=f"{wrong} /help lists all.") if wrong else None

    def _help(self) -> str:
        rows = [f"  /{name}  {what}".rstrip() for name, what in self._vocabulary.commands]
        return "\n".join([HELP, *(["Commands for the model:"] if rows else []), *rows])

    def _cost(self) -> str:
        spent = self._view.usage
        cost = "" if spent.cost is None else f", ${spent.cost:.4f}"
        return f"{spent.tokens_in:,} tokens in, {spent.tokens_out:,} out{cost}."

    def _config(self) -> str:
        view = self._view
        now = f"Level {self.level}, mode {view.mode}, model {view.model}."
        return f"In a shell: rookery config. {now}"

    def _switch(self, mode: str) -> LineOutcome:
        modes = self._vocabulary.modes
        if mode in modes:
            return LineOutcome((SwitchMode(task_id=self._task_id, mode=mode),))
        wrong = f"No such mode: {mode}. " if mode else ""
        return LineOutcome(words=wrong + list_modes(modes, self._view.mode))

    def _switch_model(self, wanted: str) -> LineOutcome:
        """A model may be given with its provider, as not all models are known."""
        provider, _, model = wanted.rpartition(" ")
        if model:
            named = [each for each in self._vocabulary.models if each[1] == model]
            provider = provider.strip() or (named[0][0] if named else "")
            switch = SwitchModel(task_id=self._task_id, provider=provider, model=model)
            return LineOutcome((switch,))
        return LineOutcome(words=list_models(self._vocabulary.models, self._view.model))

    def _select_intent(self, intent_id: str) -> LineOutcome:
        known = self._vocabulary.intents
        if not known:
            return LineOutcome(words="This project has no intents. See: rookery intents")
        if intent_id:
            wanted = "" if intent_id == NONE else intent_id
            return LineOutcome((SelectIntent(task_id=self._task_id, intent_id=wanted),))
        rows = [f"  {each}  {what}" for each, what in (*known, (NONE, "select no intent"))]
        chosen = self._view.intent
        now = f"The selected intent is {chosen.intent_id}." if chosen else "No intent is selected."
        return LineOutcome(words="\n".join([now, *rows]))

    def _switch_approval(self, word: str) -> LineOutcome:
        if word in ("on", "off"):
            return LineOutcome((SwitchApproval(task_id=self._task_id, automatic=word == "on"),))
        now = "on" if self.level is Level.AUTO else "off"
        return LineOutcome(words=f"Auto-approve is {now}. Use /approve on or /approve off.")

    def _about_permissions(self, argument: str) -> LineOutcome:
        word, _, rule_id = argument.partition(" ")
        if word == "remove" and rule_id.strip():
            return LineOutcome((RemoveRule(task_id=self._task_id, rule_id=rule_id.strip()),))
        if level := level_named(word):
            return LineOutcome((SwitchApproval(task_id=self._task_id, level=level),))
        if not word:
            return LineOutcome(shows="permissions")
        return LineOutcome(words=f"No such level: {word}. Use one of: {', '.join(CYCLE)}.")

    def _agent_rows(self) -> "AgentRows":
        from rookery.core.folds.agent_rows import agents_in

        return agents_in(self._events, {id: each._events for id, each in self._children.items()})

    def _stop(self, name: str) -> LineOutcome:
        if not name:
            return self._about_command("no")
        running = self._agent_rows().running
        found = [row for row in running if row.name == name and row.state != "waiting"]
        if not found:
            return LineOutcome(words=f"No running agent is named {name}. /tree lists them.")
        return LineOutcome((CloseTask(task_id=found[-1].task_id),))

    def _about_queue(self, argument: str) -> LineOutcome:
        waiting = list(self._waiting())
        word, _, number = argument.partition(" ")
        if word == "drop" and number.strip().isdecimal() and 0 < int(number) <= len(waiting):
            task_id, message_id, _ = waiting[int(number) - 1]
            return LineOutcome((EditQueue(task_id=task_id, message_id=message_id),))
        if not waiting:
            return LineOutcome(words="No queued messages.")
        rows = [f"{at:>3}. {_first_line(text)}" for at, (_, _, text) in enumerate(waiting, 1)]
        return LineOutcome(words="\n".join([*rows, "To remove one: /queue drop NUMBER"]))

    def _waiting(self) -> Iterator[tuple[str, str, str]]:
        """Queued messages of this task and its sub-tasks."""
        for spoken in self._view.queue:
            yield self._task_id, spoken.message_id, spoken.text
        for child in self._children.values():
            yield from child._waiting()

    def _at_work(self) -> str:
        """The task itself, or its working sub-task."""
        lines: SlashLines | None = self
        task_id = self._task_id
        while lines and lines._handed_on:
            task_id = list(lines._handed_on.values())[-1]
            lines = self._children.get(task_id)
        return task_id

    def _undo(self) -> LineOutcome:
        to = last_change(self._events)
        if to is None:
            return LineOutcome(words=NOTHING_TO_UNDO)
        return self._back(to, files=True, words=True)

    def _go_back(self, to: str, *, files: bool, words: bool) -> LineOutcome:
        if to.isdecimal() and 1 <= int(to) <= len(self._events):
            return self._back(int(to), files=files, words=words)
        known = points(self._events)
        rows = [f"{point.to:>5}  {_first_line(point.what)}" for point in known[-20:]]
        wrong = [f"No such point: {to}."] if to else []
        return LineOutcome(
            words="\n".join([*rows, *wrong, "To rewind to before a step: /rewind NUMBER"])
        )

    def _back(self, to: int, *, files: bool, words: bool) -> LineOutcome:
        return LineOutcome(
            commands=(
                *([RestoreFiles(task_id=self._task_id, to=to)] if files else []),
                *([Rewind(task_id=self._task_id, to=to)] if words else []),
            )
        )

    def step_at(self, to: int) -> str:
        """The step that follows a point, in one line; empty if no step does."""
        return {each.to: _first_line(each.what) for each in points(self._events)}.get(to, "")

    @property
    def _knows_a_command(self) -> bool:
        return bool(self._offer or self._waited_for or self._detached)

    def _about_command(self, reply: Reply) -> LineOutcome:
        for child in reversed(self._children.values()):
            if child._knows_a_command:
                return child._about_command(reply)
        if self._offer:
            return LineOutcome((Answer(task_id=self._task_id, ask_id=self._offer, reply=reply),))
        if self._waited_for:
            return LineOutcome(words="The command has only just started. Try again in a moment.")
        if reply == "no" and self._detached:
            return LineOutcome((StopCommand(task_id=self._task_id, call_id=self._detached[-1]),))
        return LineOutcome(words="No command is running.")


def permissions_text(known: Permissions) -> str:
    """What is allowed without asking, and how to change it."""
    levels = [f"{' →'[each is known.level]} {each:<10} {each.sentence}" for each in known.levels]
    if Level.SANDBOXED not in known.levels:
        levels.append(f"  {Level.SANDBOXED:<10} not available: it needs a sandbox without network")
    rules = [f"  {each.id}  {visible_line(each.text)}" for each in known.rules]
    return "\n".join(
        [
            *levels,
            "To change it: /permissions LEVEL",
            "Rules in force; /permissions remove ID removes one:" if rules else "No rules.",
            *rules,
            ALWAYS_ASK,
        ]
    )


def _first_line(text: str) -> str:
    return shortened(text.strip().partition("\n")[0], 70)
