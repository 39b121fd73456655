"""The hosts that a command line or a web page names, and whether a person is asked about them.

This is a convenience where a proxy decides about every connection. Where there is none, it is all
there is: so there every program counts that reaches whatever host it is told.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import anyio.to_thread

from rookery.commands.program_tables import network_programs, programs_that_reach_anywhere
from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Judgement, program_name
from rookery.core.hosts import Host, covered, entries, host, web_address
from rookery.core.rulings import Ruling, ask
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import RuleBook

MOST_NAMED = 5
UNKNOWN = (
    "Blocked: {} is not a known host. A yes lets this command reach it; sandbox.hosts in your "
    "settings lets every command."
)
UNKNOWN_PAGE = (
    "{} is not a known host. A yes lets the browser open its pages until the task ends; "
    "sandbox.hosts in your settings always does."
)
ANYWHERE = "{} can reach any host: no network namespace can be made, so hosts cannot be blocked."

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^\s/?#'\"<>\\]+)", re.IGNORECASE)
_PORTS = {"http": 80, "ws": 80, "ssh": 22, "git": 9418, "ftp": 21}
_GIT_NETWORK = {"clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"}


class NetworkGate:
    """A hook. A command that names an unknown host is asked about, whatever else allows it. Where
    nothing can block hosts (`open_to_all`), so is one whose program reaches any. So is a web page
    of an unknown host, unless pages from there were `browsed` in this task: an address can carry
    data out as well."""

    def __init__(
        self,
        rules: RuleBook,
        *,
        knows: Callable[[Host], bool],
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
        if known or not self._unknown([Host(address.host, address.port)]):
            return Ruling()
        return ask(UNKNOWN_PAGE.format(address.host))

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    def _unknown(self, named: Sequence[Host]) -> list[Host]:
        allowed = entries(self._rules.hosts())
        return [each for each in named if not (self._knows(each) or covered(each, allowed))]


def named_hosts(
    commands: Iterable[Sequence[str]], *, by_any_program: bool = False
) -> tuple[Host, ...]:
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
    for words in commands:
        name = program_name(words[0]) if words else ""
        if name in programs_that_reach_anywhere() and not any(_in_urls(words)):
            return name
        if name == "git" and _leaves(words[1:], known):
            return f"git {_subcommand(words[1:])}"
    return ""


def _names_hosts(name: str) -> bool:
    return name == "git" or name in network_programs() | programs_that_reach_anywhere()


def _in_urls(words: Sequence[str]) -> Iterator[Host]:
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
