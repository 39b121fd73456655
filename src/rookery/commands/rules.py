"""What may run without a question: the user's lists of commands, and the hosts that a line names.

A list of denied commands is a convenience and no protection: there are more ways to say a
thing than can be listed. What protects is the sandbox. So with hosts, where a proxy decides about
every connection. Where there is none, words are all there is: so there every program counts that
reaches whatever host it is told.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import anyio.to_thread

from rookery.commands.plain_line import plain
from rookery.commands.program_tables import network_programs, programs_that_reach_anywhere
from rookery.commands.programs import known_reader, reading
from rookery.commands.words import Word, words
from rookery.commands.wrappers import wrapped
from rookery.core.asks import Decision, Ruling, allow, ask, deny
from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Judgement, Pipeline, PlainCommand, program_name
from rookery.core.hosts import HostPort, covered, entries, host, web_address
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import RuleBook

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
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^\s/?#'\"<>\\]+)", re.IGNORECASE)
_PORTS = {"http": 80, "ws": 80, "ssh": 22, "git": 9418, "ftp": 21}
_GIT_NETWORK = {"clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"}
EVERYTHING = "*"


class CommandRules:
    """Denies what the user has denied, asks about what is dangerous, and allows what is understood
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
                "The command nests commands too deeply to check them against the "
                "user's list of denied commands. Run them one by one."
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
    if known_reader(said):
        return reading(words(said)).reads_only
    inner = wrapped(words(said))
    if inner is None:
        return True
    own = wrapped(words(entry))
    allowed = [*entries, *(_known(one) for one in (own.commands if own else ()))]
    plainly = not inner.scripts and not inner.elsewhere and inner.folder is None
    return plainly and all(_covers(allowed, _known(one)) for one in inner.commands)


def _known(said: Sequence[Word]) -> tuple[str, ...]:
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


class NetworkGate:
    """A hook. A command that names an unknown host is asked about, whatever else allows it. Where
    nothing can block hosts (`open_to_all`), so is one whose program reaches any. So is a web page
    of an unknown host, unless pages from there were `browsed` in this task: an address can carry
    data out as well."""

    def __init__(
        self,
        rules: RuleBook,
        *,
        knows: Callable[[HostPort], bool],
        open_to_all: Callable[[], bool],
        remotes: Sequence[str],
        browsed: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._rules = rules
        self._knows = knows
        self._open_to_all = open_to_all
        self._remotes = remotes
        self._browsed = browsed

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        kind, _, origin = action.external.partition(" ")
        if kind == "browser":
            return self._on_page(origin, action)
        question = await self._question(action)
        # most commands name no host, and whether a rule allows one takes looks at files
        return ask(question) if question and not self._rules.allows(action) else Ruling()

    async def _question(self, action: Action) -> str:
        """What to ask if no rule allows the command; empty if there is nothing to ask."""
        judged = action.judgement or Judgement()
        if not action.command or judged.plain:
            return ""
        anywhere = await anyio.to_thread.run_sync(self._open_to_all)
        named = named_hosts(judged.commands, by_any_program=anywhere)
        if unknown := self._unknown(named):
            return UNKNOWN.format(", ".join(map(str, unknown[:MOST_NAMED])))
        if anywhere and (program := reaches_unnamed(judged.commands, self._remotes)):
            return ANYWHERE.format(program)
        return ""

    def _on_page(self, origin: str, action: Action) -> Ruling:
        address = web_address(origin)
        known = address.is_loopback or origin in self._browsed() or self._rules.allows(action)
        if known or not self._unknown([HostPort(address.host, address.port)]):
            return Ruling()
        return ask(UNKNOWN_PAGE.format(address.host))

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    def _unknown(self, named: Sequence[HostPort]) -> list[HostPort]:
        allowed = entries(self._rules.hosts())
        return [each for each in named if not (self._knows(each) or covered(each, allowed))]


def named_hosts(
    commands: Iterable[Sequence[str]], *, by_any_program: bool = False
) -> tuple[HostPort, ...]:
    """Hosts in URLs that are given to programs which use the network, or to any program at all.
    This machine is none."""
    found = (
        named
        for words in commands
        if words and (by_any_program or _names_hosts(program_name(words[0])))
        for named in _in_urls(words)
    )
    return tuple(dict.fromkeys(each for each in found if not each.is_loopback))


def reaches_unnamed(commands: Iterable[Sequence[str]], remotes: Iterable[str]) -> str:
    """A program in the line that reaches a host which no URL names; empty if there is none.
    `remotes` are the names of a repository's own."""
    known = {*remotes}
    for said in commands:
        name = program_name(said[0]) if said else ""
        if name in programs_that_reach_anywhere() and not any(_in_urls(said)):
            return name
        if name == "git" and _leaves(said[1:], known):
            return f"git {_subcommand(said[1:])}"
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


def _leaves(words: Sequence[str], remotes: set[str]) -> bool:
    """Whether git would reach something that is neither named by a URL nor a remote."""
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
