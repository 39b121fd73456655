"""Lines that begin with a slash are for the client, not for the model."""

import re
from collections.abc import Callable, Sequence

from rookery.core.asks import AskKind, Reply
from rookery.core.commands import Answer, Command, RestoreFiles, Rewind, StopCommand
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
from rookery.core.values import record

HELP = (
    "/undo takes back the last change of files and what was said since; /rewind lists the points "
    "one can go back to, /rewind N goes there, /files N puts back only the files; /bg lets the "
    "running command run on, /stop ends it."
)


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

    def __init__(self, task_id: str, stored: Sequence[Event] = ()) -> None:
        self._task_id = task_id
        self._events = list(stored)
        self._offer = ""
        self._waited_for = ""
        self._detached: list[str] = []

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
            "/help": lambda _: Heard(words=HELP),
            "/undo": lambda _: self._undo(),
            "/rewind": lambda to: self._go_back(to, files=True, words=True),
            "/files": lambda to: self._go_back(to, files=True, words=False),
            "/bg": lambda _: self._about_command("yes"),
            "/stop": lambda _: self._about_command("no"),
        }
        if name in doings:
            return doings[name](rest.strip())
        mistyped = re.fullmatch(r"/[a-z]+", name)
        return Heard(words=f"There is no {name}; /help shows what there is.") if mistyped else None

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

    def _about_command(self, reply: Reply) -> Heard:
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
