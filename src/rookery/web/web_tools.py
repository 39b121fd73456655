"""The tools for the web, and the hook that asks about each origin once.

`WebFetch` reads a page, `WebSearch` asks a search engine. `KnownPages` allows what the user's
settings list and what was approved earlier in the task. They are loaded at every start, so nothing
heavy may be imported at module level.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec.structs import replace

from rookery.core.asks import Ruling, allow, ask
from rookery.core.blocks import Sight, ToolCall
from rookery.core.facts import Ending, Event
from rookery.core.replies import failed
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Hook, RuleBook
from rookery.engine.ports.tool import ToolContext, WebSearchEngine
from rookery.errors import BadArguments, Denied, SettingsError, ToolError

if TYPE_CHECKING:
    from rookery.core.hosts import WebAddress
    from rookery.core.limits import Limits
    from rookery.core.settings_sections import WebSettings
    from rookery.web.page_fetch import PageFetcher
    from rookery.web.page_text import ReadDocument, WebPage

WEB = "web "
"""How `Action.external` begins for pages and searches; the origin or `search` follows."""
LONGEST_TITLE = 100
LONGEST_QUERY = 400
_KEPT_PAGES = 4
LASTS = "If you approve, {} until this session ends."
LOCAL = "This is a server on this machine, which may show private data: {}."
UNNAMED = (
    "The conversation does not name this address, and it could carry data to {host}. Name the "
    "page in the prompt, or add the host to web.hosts."
)


class WebFetchArgs(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0


class WebFetch:
    name: ClassVar[str] = "web_fetch"
    description: ClassVar[str] = "Read a web page as text. Long pages: continue with offset."
    arguments: ClassVar[type[msgspec.Struct]] = WebFetchArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(hook_name="WebFetch", editor_kind="fetch")

    def __init__(
        self,
        settings: "WebSettings",
        limits: "Limits",
        *,
        network: bool,
        read_document: "ReadDocument",
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._network = network
        self._read_document = read_document
        self._pages: dict[str, WebPage] = {}
        """The last pages, for calls with an offset."""

    async def prepare(self, args: WebFetchArgs, ctx: ToolContext) -> Action:
        return self._action(args.url, args.offset, ctx.limits.page_characters, ctx)

    def mentioned(self, url: str, most: int, ctx: ToolContext) -> Action:
        """The action that attaches a page to a message. Raises `ToolError`."""
        return self._action(url, 0, min(most, ctx.limits.page_characters), ctx)

    def _action(self, url: str, offset: int, most: int, ctx: ToolContext) -> Action:
        from rookery.web.page_fetch import parsed_address

        address = parsed_address(url)
        fetcher = self._fetcher()
        if reason := fetcher.refusal(address):
            raise ToolError(f"{address.origin} was not fetched. {reason}")

        async def perform(permit: Permit) -> Outcome:
            if permit.digest != action.digest:
                raise Denied("This was not permitted, so it was not done.")
            try:
                return await self._outcome(fetcher, address, offset, most, ctx)
            except ToolError as error:  # an outcome, so that the approval of the origin holds
                return Outcome(text=failed(str(error)), ending=Ending.FAILED)

        short = len(address.url) <= LONGEST_TITLE
        action = Action(
            title=f"Fetch {address.url}" if short else f"Fetch a page of {address.origin}",
            perform=perform,
            external=f"{WEB}{address.origin}",
            spares_files=True,
            notes=() if short else (f"url: {address.url}",),
            payload={"tool": "webFetch", "url": address.url, "content": address.url},
        )
        return action

    def is_listed(self, origin: str) -> bool:
        """Whether the user's settings list the host."""
        from rookery.core.hosts import web_address

        return self._fetcher().is_listed(web_address(origin))

    def _fetcher(self) -> "PageFetcher":
        from rookery.web.page_fetch import PageFetcher

        return PageFetcher(self._limits, listed=self._settings.hosts, network=self._network)

    async def _outcome(
        self,
        fetcher: "PageFetcher",
        address: "WebAddress",
        offset: int,
        most: int,
        ctx: ToolContext,
    ) -> Outcome:
        from rookery.web.page_text import outcome_of, page_of

        page = self._pages.get(address.url) if offset else None
        if page is None:
            download = await fetcher.fetch(address)
            if download.moved_to:
                return Outcome(text=f"The page has moved to {download.moved_to}. Fetch that.")
            page = await page_of(download, self._read_document)
            self._keep(address.url, page)
        return outcome_of(
            page, offset, most, Sight(sees=ctx.sees_images, most=ctx.limits.image_bytes)
        )

    def _keep(self, url: str, page: "WebPage") -> None:
        self._pages.pop(url, None)
        self._pages[url] = page
        while len(self._pages) > _KEPT_PAGES:
            self._pages.pop(next(iter(self._pages)))


class WebSearchArgs(msgspec.Struct, forbid_unknown_fields=True):
    query: str


class WebSearch:
    name: ClassVar[str] = "web_search"
    description: ClassVar[str] = "Search the web. Returns titles, addresses and excerpts."
    arguments: ClassVar[type[msgspec.Struct]] = WebSearchArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(hook_name="WebSearch", editor_kind="search")

    def __init__(self, open_engine: Callable[[], WebSearchEngine]) -> None:
        self._open_engine = open_engine

    async def prepare(self, args: WebSearchArgs, ctx: ToolContext) -> Action:
        query = " ".join(args.query.split())
        if not query or len(query) > LONGEST_QUERY:
            raise BadArguments(f"The query must have 1 to {LONGEST_QUERY} characters.")
        try:
            engine = self._open_engine()
        except SettingsError as error:
            raise ToolError(str(error)) from error

        async def perform(permit: Permit) -> Outcome:
            if permit.digest != action.digest:
                raise Denied("This was not permitted, so it was not done.")
            from rookery.web.search_engines import report

            return Outcome(text=report(query, await engine.search(query)))

        short = len(query) <= LONGEST_TITLE
        where = f"Search the web with {engine.name}"
        action = Action(
            title=f"{where} for {query}" if short else where,
            perform=perform,
            external=f"{WEB}search {engine.name}",
            spares_files=True,
            notes=() if short else (f"query: {query}",),
            payload={"tool": "webSearch", "query": query, "content": query},
        )
        return action


class KnownPages(Hook):
    """Hook that allows pages of listed hosts, and origins and engines that were approved in this
    task. Pages of this machine, and pages that the conversation does not name, ask even if
    everything else is approved automatically. `logs` are those of the tasks above and of this
    one."""

    def __init__(
        self,
        rules: RuleBook,
        is_listed: Callable[[str], bool],
        automatic: Callable[[], bool],
        logs: Callable[[], Sequence[Sequence[Event]]],
    ) -> None:
        self._rules = rules
        self._is_listed = is_listed
        self._automatic = automatic
        self._logs = logs
        self._approved: set[str] = set()
        self._asked: set[str] = set()
        """Digests of the actions that needed an approval in an automatic run."""

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if not action.external.startswith(WEB):
            return Ruling()
        about = action.external.removeprefix(WEB)
        if about in self._approved or self._rules.allows(action):
            return allow()
        if about.startswith("search "):
            return Ruling(notes=(LASTS.format(f"{about.removeprefix('search ')} is searched"),))
        if self._is_listed(about):
            return allow()
        return self._on_page(about, action)

    def _on_page(self, origin: str, action: Action) -> Ruling:
        lasts = LASTS.format(f"pages of {origin} are fetched")
        reason = LOCAL.format(origin) if _is_local(origin) else self._unnamed(origin, action)
        if not reason:
            return Ruling(notes=(lasts,))
        self._asked.add(action.digest)
        return replace(ask(reason), notes=(lasts,))

    def _unnamed(self, origin: str, action: Action) -> str:
        """Why an automatic run asks about the page; empty if the conversation names it."""
        if not self._automatic():
            return ""
        from rookery.web.page_sources import is_named

        named = is_named(str(action.payload["url"]), self._logs())
        return "" if named else UNNAMED.format(host=origin.partition("://")[2])

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        if not action.external.startswith(WEB):
            return
        if not self._automatic() or action.digest in self._asked:
            self._approved.add(action.external.removeprefix(WEB))


def _is_local(origin: str) -> bool:
    from rookery.core.hosts import web_address

    return web_address(origin).is_loopback
