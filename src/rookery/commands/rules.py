"""Which commands may run without asking: the user's lists, and the hosts that a line names.

A deny list is a convenience, not a protection, since there are too many ways to write a command;
the sandbox protects. The same goes for hosts: a proxy decides about every connection. Only where
there is no proxy, each program that can reach any host counts as reaching an unknown one.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from rookery.commands.plain_line import plain
from rookery.commands.prefixes import is_filter, leads_nowhere, prefix_of
from rookery.commands.program_tables import network_programs, programs_that_reach_anywhere
from rookery.commands.programs import known_reader, reading
from rookery.commands.words import Word, words
from rookery.commands.wrappers import wrapped
from rookery.core.asks import Decision, Ruling, allow, ask, deny
from rookery.core.blocks import ToolCall
from rookery.core.hosts import HostPort, covered, entries, host, web_address
from rookery.engine.ports.actions import Action, Judgement, Pipeline, PlainCommand, program_name
from rookery.engine.ports.hooks import Hook, RuleBook
from rookery.first_use import lazy_pattern

MOST_NAMED = 5
UNKNOWN = (
    "Blocked: {} is not a known host. If you approve, this command can reach it. To "
    "allow it for all commands, add it to sandbox.hosts in your settings."
)
UNKNOWN_PAGE = (
    "{} is not a known host. If you approve, the browser can open its pages until "
    "the task ends. To allow it always, add it to sandbox.hosts in your settings."
)
ANYWHERE = "{} can reach any host: no network namespace can be made, so hosts cannot be blocked."
_URL = lazy_pattern(r"([a-z][a-z0-9+.-]*)://([^\s/?#'\"<>\\]+)", re.IGNORECASE)
_PORTS = {"http": 80, "ws": 80, "ssh": 22, "git": 9418, "ftp": 21}
_GIT_NETWORK = {"clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"}
EVERYTHING = "*"


class CommandRules(Hook):
    """Denies what the user's list denies, asks about what is dangerous, and allows what is known
    to be harmless or on the user's list. Has no opinion about the rest."""

    def __init__(
        self,
        *,
        allow: Sequence[str],
        deny: Sequence[str],
        trusted: bool,
        confines: Callable[[], bool] = lambda: True,
        exactly: Collection[tuple[str, ...]] = (),
        prefixes: Callable[[], Sequence[str]] = tuple,
        root: Path = Path("/"),
    ) -> None:
        """`confines` tells whether commands run in a sandbox. Without one, a command is allowed
        only by the user's own list, or by a rule for the words that it begins with (`prefixes`).
        `exactly` are whole commands that a flag allows. `root` is the workspace."""
        self._exactly = exactly
        self._prefixes = prefixes
        self._root = root
        self._confines = confines
        self._allow = [argv for entry in allow if (argv := _argv(entry))]
        self._allow_all = EVERYTHING in allow
        self._deny = [entry.split() for entry in deny if entry.strip()]
        self._trusted = trusted

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if not action.command:
            return Ruling()
        judged = action.judgement or Judgement(why_not="it is not a known program")
        if reason := self._denied(judged):
            return deny(reason)
        if judged.dangers:
            return Ruling(Decision.ASK, judged.dangers)
        if self._allowed(judged):
            return allow()
        if judged.plain and self._trusted and await anyio.to_thread.run_sync(self._confines):
            return allow()
        return Ruling()

    def _denied(self, judged: Judgement) -> str:
        if not self._deny:
            return ""
        for entry in self._deny:
            if any(begins_with(entry, argv) for argv in judged.commands):
                return (
                    f"The user's settings deny commands like '{' '.join(entry)}'. "
                    "Do it another way, or ask the user to run it."
                )
        if judged.too_deep:
            return (
                "The command nests commands too deeply to check them against the "
                "user's list of denied commands. Run them one by one."
            )
        return ""

    def _allowed(self, judged: Judgement) -> bool:
        if self._allow_all:
            return True
        if judged.written is None or judged.spelled is None:
            return False
        return all(
            is_filter(place, one)
            or one.words in self._exactly
            or _covers((*self._allow, *self._rules_for(one, judged)), one.words)
            for pipeline in judged.written
            for place, one in enumerate(pipeline.commands)
        )

    def _rules_for(self, command: PlainCommand, judged: Judgement) -> Sequence[Sequence[str]]:
        """The prefix of the command, if the user added a rule for it."""
        prefix = prefix_of(command, self._root)
        kept = prefix and leads_nowhere(judged) and " ".join(prefix) in self._prefixes()
        return [prefix] if kept else []


def faulty_entries(entries: Sequence[str]) -> list[str]:
    """A sentence for each entry of the allow list that has no effect."""
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
        return "it is more than one command. Give each command its own entry."
    if "/" in parsed[0].commands[0].words[0]:
        return "a program named by its path is always asked about."
    return ""


def _argv(entry: str) -> tuple[str, ...] | None:
    if _fault(entry):
        return None
    parsed = plain(entry)
    return parsed[0].commands[0].words if parsed else None


def _covers(entries: Sequence[Sequence[str]], argv: Sequence[str]) -> bool:
    return any(_covered_by(entry, entries, argv) for entry in entries)


def _covered_by(
    entry: Sequence[str], entries: Sequence[Sequence[str]], argv: Sequence[str]
) -> bool:
    """Whether an entry covers the command: the command starts with its words. If the program
    only reads, its options must be known too; if it runs other commands, they must be covered as
    well."""
    if tuple(entry) == tuple(argv):
        return True
    if tuple(argv[: len(entry)]) != tuple(entry):
        return False
    if known_reader(argv):
        return reading(words(argv)).reads_only
    inner = wrapped(words(argv))
    if inner is None:
        return True
    own = wrapped(words(entry))
    allowed = [*entries, *(_known(one) for one in (own.commands if own else ()))]
    plainly = not inner.scripts and not inner.elsewhere and inner.folder is None
    return plainly and all(_covers(allowed, _known(one)) for one in inner.commands)


def _known(argv: Sequence[Word]) -> tuple[str, ...]:
    return tuple(word.text for word in argv if word.known)


def begins_with(entry: Sequence[str], argv: Sequence[str]) -> bool:
    """Compare word by word from the start. Short options match in any order and grouping."""
    if list(entry) == [EVERYTHING]:
        return True
    if not argv or program_name(entry[0]) != program_name(argv[0]):
        return False
    if [word.lower() for word in entry[1:]] == [word.lower() for word in argv[1 : len(entry)]]:
        return True
    wanted, given = _plain_words(entry[1:]), _plain_words(argv[1:])
    return _options(entry[1:]) <= _options(argv[1:]) and given[: len(wanted)] == wanted


def _plain_words(argv: Sequence[str]) -> list[str]:
    return [word.lower() for word in argv if not word.startswith("-")]


def _options(argv: Sequence[str]) -> set[str]:
    options = set[str]()
    for word in argv:
        if re.fullmatch(r"-[A-Za-z0-9]+", word):
            options |= {f"-{letter}" for letter in word[1:]}
        elif word.startswith("-"):
            options.add(word)
    return options


class NetworkGate(Hook, Struct):
    """Asks about commands that name an unknown host, whatever else allows them.

    Where hosts cannot be blocked (`open_to_all`), it also asks about programs that reach any host.
    It asks about web pages of unknown hosts, unless a page from there was `browsed` in this task,
    because a URL can carry data out as well.
    """

    rules: RuleBook
    knows: Callable[[HostPort], bool]
    open_to_all: Callable[[], bool]
    remotes: Sequence[str]
    browsed: Callable[[], Collection[str]] = tuple

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        kind, _, origin = action.external.partition(" ")
        if kind == "browser":
            return self._rule_on_page(origin, action)
        question = await self._question(action)
        # checked last: most commands name no host, and the rules have to read files
        return ask(question) if question and not self.rules.allows(action) else Ruling()

    async def _question(self, action: Action) -> str:
        """The question to ask if no rule allows the command; empty if there is none."""
        judged = action.judgement or Judgement()
        if not action.command or judged.plain:
            return ""
        unnamed = reaches_unnamed(judged.commands, self.remotes)
        if not (unnamed or named_hosts(judged.commands, by_any_program=True)):
            return ""
        anywhere = await anyio.to_thread.run_sync(self.open_to_all)
        named = named_hosts(judged.commands, by_any_program=anywhere)
        if unknown := self._unknown(named):
            return UNKNOWN.format(", ".join(map(str, unknown[:MOST_NAMED])))
        return ANYWHERE.format(unnamed) if anywhere and unnamed else ""

    def _rule_on_page(self, origin: str, action: Action) -> Ruling:
        address = web_address(origin)
        known = address.is_loopback or origin in self.browsed() or self.rules.allows(action)
        if known or not self._unknown([HostPort(address.host, address.port)]):
            return Ruling()
        return ask(UNKNOWN_PAGE.format(address.host))

    def _unknown(self, named: Sequence[HostPort]) -> list[HostPort]:
        allowed = entries(self.rules.hosts())
        return [each for each in named if not (self.knows(each) or covered(each, allowed))]


def named_hosts(
    commands: Iterable[Sequence[str]], *, by_any_program: bool = False
) -> tuple[HostPort, ...]:
    """Hosts in URLs that are given to network programs, or to any program; loopback is excluded."""
    found = (
        named
        for words in commands
        if words and (by_any_program or _names_hosts(program_name(words[0])))
        for named in _in_urls(words)
    )
    return tuple(dict.fromkeys(each for each in found if not each.is_loopback))


def reaches_unnamed(commands: Iterable[Sequence[str]], remotes: Iterable[str]) -> str:
    """A program in the line that reaches a host no URL names; empty if there is none. `remotes`
    are the remotes of the repository."""
    known = {*remotes}
    for argv in commands:
        name = program_name(argv[0]) if argv else ""
        if name in programs_that_reach_anywhere() and not any(_in_urls(argv)):
            return name
        if name == "git" and _reaches_unknown_remote(argv[1:], known):
            return f"git {_subcommand(argv[1:])}"
    return ""


def _names_hosts(name: str) -> bool:
    return name == "git" or name in network_programs() | programs_that_reach_anywhere()


def _in_urls(words: Sequence[str]) -> Iterator[HostPort]:
    for word in words:
        for scheme, authority in _URL.findall(word):
            name, port = _split(authority.rpartition("@")[2])
            usual = _PORTS.get(scheme.lower().rpartition("+")[2], 443)
            if found := host(name, int(port) if port else usual):
                yield found


def _split(place: str) -> tuple[str, str]:
    name, colon, port = place.rpartition(":")
    return (name, port) if colon and port.isdecimal() else (place, "")


def _subcommand(words: Sequence[str]) -> str:
    return next((word for word in words if word in _GIT_NETWORK), "")


def _reaches_unknown_remote(words: Sequence[str], remotes: set[str]) -> bool:
    """Whether git would reach something that is neither a URL nor a known remote."""
    command = _subcommand(words)
    if not command or any(_in_urls(words)):
        return False
    after = list(words[list(words).index(command) + 1 :])
    operands = [word for word in after if not word.startswith("-")]
    if command == "remote":
        return operands[:1] == ["update"] and not remotes
    if command == "submodule":
        return operands[:1] in (["add"], ["update"])
    return bool(operands) and operands[0] not in remotes
