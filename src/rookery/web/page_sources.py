"""Which pages the conversation names, so that an automatic run may fetch them.

What the model has read could leave in an address that it writes. So a page counts as named only if
the address comes from the user, from a search, from a page that was named itself, or from a file
that the model has had no way to write.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from urllib.parse import urlsplit

from rookery.core.asks import AskKind, offered_in
from rookery.core.blocks import ToolCall
from rookery.core.event_list import live
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Ending,
    Event,
    Gathered,
    QueueEdited,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.instructions import without_webhook
from rookery.errors import BadArguments
from rookery.first_use import lazy_pattern
from rookery.web.page_fetch import parsed_address

_ADDRESS = lazy_pattern(r"https?://(?:\[[0-9a-fA-F:.]+\])?[^\s<>\"'`\[\]{}|\\^\x00-\x20]*")
_HIT = lazy_pattern(r"(?m)^\d+\. .*\n   (https?://\S+)$")
"""A search result. Each line of a summary begins with `> `, so none looks like one."""
_AFTER = ".,;:!?*_~)"
"""Characters behind an address that usually belong to the sentence around it."""


def is_named(url: str, logs: Iterable[Sequence[Event]]) -> bool:
    """Whether the conversation names the page. `logs` are those of the tasks above it and its
    own."""
    return _key(url) in named_pages(logs)


def named_pages(logs: Iterable[Sequence[Event]]) -> frozenset[str]:
    """All pages that the conversation names, in one spelling."""
    known = _NamedPages()
    for event in chain.from_iterable(map(live, logs)):
        known.take(event)
    return frozenset(known.pages)


def addresses_in(text: str) -> Iterator[str]:
    """The pages whose addresses stand in a text, in one spelling."""
    for found in _ADDRESS.finditer(text):
        said = found[0]
        ends = {said, said.rstrip(_AFTER), said.rstrip(_AFTER[:-1]), said.partition(")")[0]}
        yield from filter(None, map(_key, ends))


def _key(url: str) -> str:
    """The address in one spelling; empty if it is none."""
    try:
        address = parsed_address(url)
    except BadArguments:
        return ""
    parts = urlsplit(address.url)
    return f"{address.origin}{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"


class _NamedPages:
    def __init__(self) -> None:
        self.pages: set[str] = set()
        self._said: dict[str, Mapping[str, object]] = {}
        self._started: dict[str, ToolStarted] = {}
        self._offered: frozenset[str] = frozenset()
        self._has_acted = False
        """Whether the model could have written a file or chosen what a command prints."""

    def take(self, event: Event) -> None:
        match event.fact:
            case Asked(ask=AskKind.FOLLOWUP, text=text):
                self._offered = offered_in(text)
            case Answered(level=level, text=text) if level or text.strip() in self._offered:
                pass  # the model wrote the plan, and its suggestions
            case (
                TaskOpened(parent=None, text=str(text))
                | UserSpoke(text=str(text))
                | QueueEdited(text=str(text))
                | Answered(by="user", text=str(text))
            ):
                self.pages.update(addresses_in(without_webhook(text)))
            case Gathered(text=text) if not self._has_acted:
                self.pages.update(addresses_in(text))
            case AssistantSpoke(blocks=blocks):
                calls = (each for each in blocks if isinstance(each, ToolCall))
                self._said.update((call.id, call.arguments) for call in calls)
            case ToolStarted() as begun:
                self._started[begun.call_id] = begun
                web = begun.external.startswith("web ")
                self._has_acted = self._has_acted or not (begun.harmless or web)
            case ToolFinished(ending=Ending.DONE) as end if end.call_id in self._started:
                self.pages.update(self._found(self._started[end.call_id], end.text))
            case _:
                pass

    def _found(self, begun: ToolStarted, text: str) -> Iterable[str]:
        """The pages that a result names, without what it repeats of the call."""
        if begun.external.startswith("web search "):
            return addresses_in("\n".join(_HIT.findall(text)))
        if begun.external:
            return addresses_in(text) if self._is_page_named(begun) else ()
        if self._has_acted:
            return ()
        said = json.dumps(self._said.get(begun.call_id, {}), ensure_ascii=False)
        return {*addresses_in(text)} - {*addresses_in(said)}

    def _is_page_named(self, begun: ToolStarted) -> bool:
        """A page that was not named could repeat, or redirect to, what its address says."""
        if not begun.external.startswith("web "):
            return False
        return _key(str(json.loads(begun.text)["url"])) in self.pages
