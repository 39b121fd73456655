"""Lines that begin with a slash are for the client, not for the model."""

import re
from collections.abc import Callable, Sequence

from rookery.core.asks import AskKind, Reply
from rookery.core.commands import (
    Answer,
    Command,
    Condense,
    RestoreFiles,
    Rewind,
    StopCommand,
    SwitchMode,
)
from rookery.core.facts import (
    Answered,
    Asked,
    CommandDetached,
    CommandEnded,
    Event,
    OfferWithdrawn,
    ToolFinished,
    ToolStarted,
)
from rookery.core.points import points
from rookery.core.values import record, value

HELP = (
    "/undo takes back the last change of files and what was said since; /rewind lists the points "
    "one can go back to, /rewind N goes there, /files N puts back only the files; /bg lets the "
    "running command run on, /stop ends it; /mode NAME goes on in another mode; /condense has the "
    "conversation summarised."
)


@value
class Vocabulary:
    """What else a line may name: commands, whose text the model is given, and modes."""

    commands: Sequence[tuple[str, str]] = ()
    """Each with what it is for."""
    modes: Sequence[str] = ()


@record
class Heard:
    """What a line led to: commands for the host, and words for whoever typed it."""

    commands: tuple[Command, ...] = ()
    words: str = ""

    @property
    def goes_back(self) -> bool:
        """What is being asked is asked no longer once this is done."""
        return any(isinstance(command, RestoreFiles | Rewind) for command in self.commands)


class SlashLines:
    """Watches a task so that it knows what the lines refer to."""

    def __init__(
        self,
        task_id: str,
        stored: Sequence[Event] = (),
        vocabulary: Vocabulary = Vocabulary(),  # noqa: B008 (it never changes)
    ) -> None:
        self._task_id = task_id
        self._events = list(stored)
        self._vocabulary = vocabulary
        self._children: dict[str, SlashLines] = {}
        self._offer = ""
        self._waited_for = ""
        self._detached: list[str] = []

    def show_of_child(self, task_id: str, event: Event) -> None:
        """The lines are about the task itself, except where they are about what runs now."""
        self._children.setdefault(task_id, SlashLines(task_id)).show(event)

    def show(self, event: Event) -> None:
        if event.fact.lasting:
            self._events.append(event)
        match event.fact:
            case Asked(ask=AskKind.COMMAND_OUTPUT, ask_id=ask_id):
                self._offer = ask_id
            case Answered(ask_id=ask_id) | OfferWithdrawn(ask_id=ask_id) if ask_id == self._offer:
                self._offer = ""
            case ToolStarted(call_id=call_id, command=command) if command:
                self._waited_for = call_id
            case ToolFinished(call_id=call_id) if call_id == self._waited_for:
                self._waited_for = ""
            case CommandDetached(call_id=call_id):
                self._detached.append(call_id)
            case CommandEnded(call_id=call_id) if call_id in self._detached:
                self._detached.remove(call_id)
            case _:
                pass

    def hear(self, line: str) -> Heard | None:
        """What to do about the line; None if it is for the model after all."""
        name, _, rest = line.strip().partition(" ")
        doings: dict[str, Callable[[str], Heard]] = {
            "/help": lambda _: Heard(words=self._help()),
            "/mode": self._switch,
            "/condense": lambda _: Heard((Condense(task_id=self._task_id),)),
            "/undo": lambda _: self._undo(),
            "/rewind": lambda to: self._go_back(to, files=True, words=True),
            "/files": lambda to: self._go_back(to, files=True, words=False),
            "/bg": lambda _: self._about_command("yes"),
            "/stop": lambda _: self._about_command("no"),
        }
        if name in doings:
            return doings[name](rest.strip())
        if name.removeprefix("/") in dict(self._vocabulary.commands):
            return None
        mistyped = re.fullmatch(r"/[a-z]+", name)
        return Heard(words=f"There is no {name}; /help shows what there is.") if mistyped else None

    def _help(self) -> str:
        rows = [f"  /{name}  {what}".rstrip() for name, what in self._vocabulary.commands]
        return "\n".join([HELP, *(["Commands for the model:"] if rows else []), *rows])

    def _switch(self, mode: str) -> Heard:
        modes = self._vocabulary.modes
        if mode in modes:
            return Heard((SwitchMode(task_id=self._task_id, mode=mode),))
        wrong = f"There is no mode {mode}. " if mode else ""
        return Heard(words=f"{wrong}Say /mode and one of: {', '.join(modes)}.")

    def _undo(self) -> Heard:
        changes = [point.to for point in points(self._events) if point.changed_files]
        if not changes:
            return Heard(words="There is nothing to undo: no step has changed files.")
        return self._back(changes[-1], files=True, words=True)

    def _go_back(self, to: str, *, files: bool, words: bool) -> Heard:
        if to.isdecimal() and 1 <= int(to) <= len(self._events):
            return self._back(int(to), files=files, words=words)
        known = points(self._events)
        rows = [f"{point.to:>5}  {_first_line(point.what)}" for point in known[-20:]]
        wrong = [f"There is no point {to}."] if to else []
        return Heard(words="\n".join([*rows, *wrong, "Go back to before a step: /rewind NUMBER"]))

    def _back(self, to: int, *, files: bool, words: bool) -> Heard:
        return Heard(
            commands=(
                *([RestoreFiles(task_id=self._task_id, to=to)] if files else []),
                *([Rewind(task_id=self._task_id, to=to)] if words else []),
            )
        )

    @property
    def _knows_a_command(self) -> bool:
        return bool(self._offer or self._waited_for or self._detached)

    def _about_command(self, reply: Reply) -> Heard:
        for child in reversed(self._children.values()):
            if child._knows_a_command:
                return child._about_command(reply)
        if self._offer:
            return Heard((Answer(task_id=self._task_id, ask_id=self._offer, reply=reply),))
        if self._waited_for:
            return Heard(words="The command has only just begun. Say it again in a moment.")
        if reply == "no" and self._detached:
            return Heard((StopCommand(task_id=self._task_id, call_id=self._detached[-1]),))
        return Heard(words="No command is running.")


def _first_line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first if len(first) <= 70 else first[:69] + "…"
