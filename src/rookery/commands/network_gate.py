"""What is asked about commands and web pages that name hosts, where only known ones are reached."""

from collections.abc import Callable, Collection, Sequence

import anyio.to_thread

from rookery.core.blocks import ToolCall
from rookery.core.hosts import Host, covered, entries
from rookery.core.judgement import Judgement
from rookery.core.rulings import Ruling, ask
from rookery.core.web_addresses import web_address
from rookery.engine.ports import Action, Outcome, RuleBook

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
        # what is known of programs is much to load, and the first request has none
        from rookery.commands.named_hosts import named_hosts, reaches_unnamed

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
