"""The user's lists of commands, and what may run without a question.

A list of denied commands is a convenience and no protection: there are more ways to say a
thing than can be listed. What protects is the sandbox.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio.to_thread

from rookery.commands.plain_line import plain
from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Judgement, Pipeline, PlainCommand, program_name
from rookery.core.rulings import Decision, Ruling, allow, deny
from rookery.engine.ports.actions import Action, Outcome

if TYPE_CHECKING:
    from rookery.commands.words import Word

EVERYTHING = "*"


class CommandRules:
    """Denies what the user has denied, asks about what is grave, and allows what is understood
    to do no harm or is on the user's list. About the rest it has no opinion."""

    def __init__(
        self,
        *,
        allow: Sequence[str],
        deny: Sequence[str],
        trusted: bool,
        confines: Callable[[], bool] = lambda: True,
    ) -> None:
        """`confines` tells whether commands run in a sandbox: without one every command asks,
        unless the user's own lists or settings allow it."""
        self._confines = confines
        self._allow = [argv for entry in allow if (argv := _argv(entry))]
        self._allow_all = EVERYTHING in allow
        self._deny = [entry.split() for entry in deny if entry.strip()]
        self._trusted = trusted

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if not action.command:
            return Ruling()
        judged = action.judgement or Judgement(why_not="nothing is known of it")
        if reason := self._denied(judged):
            return deny(reason)
        if judged.grave:
            return Ruling(Decision.ASK, judged.grave)
        if self._allowed(judged):
            return allow()
        if judged.plain and self._trusted and await anyio.to_thread.run_sync(self._confines):
            return allow()
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    def _denied(self, judged: Judgement) -> str:
        if not self._deny:
            return ""
        for entry in self._deny:
            if any(begins_with(entry, said) for said in judged.commands):
                return (
                    f"The user's settings deny commands like '{' '.join(entry)}'. "
                    "Do it another way, or ask the user to run it."
                )
        if judged.too_deep:
            return (
                "The command holds commands in commands, deeper than the user's list of denied "
                "commands can be checked. Run them one by one."
            )
        return ""

    def _allowed(self, judged: Judgement) -> bool:
        if self._allow_all:
            return True
        if judged.written is None or judged.spelled is None:
            return False
        said = [one.words for pipeline in judged.written for one in pipeline.commands]
        return all(_covers(self._allow, one) for one in said)


def faulty_entries(entries: Sequence[str]) -> list[str]:
    """A sentence for each entry of the list of allowed commands that has no effect."""
    return [
        f"'{entry}' in the list of allowed commands has no effect: {reason}"
        for entry in entries
        if entry != EVERYTHING and (reason := _fault(entry))
    ]


def _fault(entry: str) -> str:
    parsed = plain(entry)
    if parsed is None:
        return "it needs a shell. Write one program with plain words, such as 'npm test'."
    alone = PlainCommand(parsed[0].commands[0].words)
    if parsed != (Pipeline((alone,)),):
        return "it is more than one command. Give each command an entry of its own."
    if "/" in parsed[0].commands[0].words[0]:
        return "a program named by its path is always asked about."
    return ""


def _argv(entry: str) -> tuple[str, ...] | None:
    if _fault(entry):
        return None
    parsed = plain(entry)
    return parsed[0].commands[0].words if parsed else None


def _covers(entries: Sequence[Sequence[str]], said: Sequence[str]) -> bool:
    return any(_covered_by(entry, entries, said) for entry in entries)


def _covered_by(
    entry: Sequence[str], entries: Sequence[Sequence[str]], said: Sequence[str]
) -> bool:
    """An entry covers the command that begins with its words. If its program is known to only
    read, the options must be so too; if it runs other commands, they must be covered as well."""
    if tuple(entry) == tuple(said):
        return True
    if tuple(said[: len(entry)]) != tuple(entry):
        return False
    from rookery.commands.programs import known_reader, reading
    from rookery.commands.words import words
    from rookery.commands.wrappers import wrapped

    if known_reader(said):
        return reading(words(said)).reads_only
    inner = wrapped(words(said))
    if inner is None:
        return True
    own = wrapped(words(entry))
    allowed = [*entries, *(_known(one) for one in (own.commands if own else ()))]
    plainly = not inner.scripts and not inner.elsewhere and inner.folder is None
    return plainly and all(_covers(allowed, _known(one)) for one in inner.commands)


def _known(said: "Sequence[Word]") -> tuple[str, ...]:
    return tuple(word.text for word in said if word.known)


def begins_with(entry: Sequence[str], said: Sequence[str]) -> bool:
    """Word by word from the start. Letters of options count in any order and grouping."""
    if list(entry) == [EVERYTHING]:
        return True
    if not said or program_name(entry[0]) != program_name(said[0]):
        return False
    if [word.lower() for word in entry[1:]] == [word.lower() for word in said[1 : len(entry)]]:
        return True
    wanted, given = _plain_words(entry[1:]), _plain_words(said[1:])
    return _options(entry[1:]) <= _options(said[1:]) and given[: len(wanted)] == wanted


def _plain_words(said: Sequence[str]) -> list[str]:
    return [word.lower() for word in said if not word.startswith("-")]


def _options(said: Sequence[str]) -> set[str]:
    options = set[str]()
    for word in said:
        if re.fullmatch(r"-[A-Za-z0-9]+", word):
            options |= {f"-{letter}" for letter in word[1:]}
        elif word.startswith("-"):
            options.add(word)
    return options
