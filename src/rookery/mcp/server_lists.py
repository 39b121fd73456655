"""Asking a server what it offers. However long its lists are, this comes to an end."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from msgspec import Struct

from rookery.core.limits import KIB
from rookery.mcp.catalogue import (
    Catalogue,
    PromptArgument,
    PromptOffer,
    ResourceOffer,
    ToolOffer,
)
from rookery.mcp.server_programs import LIST_SECONDS
from rookery.mcp.visible_text import visible, visible_line

if TYPE_CHECKING:
    from mcp.client.client import Client

MOST = 200
MOST_PAGES = 20
LONGEST_DESCRIPTION = 4 * KIB
LONGEST_NAME = 200
LONGEST_URI = 2 * KIB

T = TypeVar("T")


class _List(Struct, frozen=True, kw_only=True):
    what: str
    fetch: Callable[[str | None], Awaitable[tuple[Iterable[Any], str | None]]]


async def catalogue_of(client: "Client", seconds: float = LIST_SECONDS) -> Catalogue:
    """All lists at once. One that cannot be had is empty, and a note says why. Raises
    `MCPError` if the connection is lost."""
    from mcp import MCPError

    found: dict[str, list[Any]] = {}
    notes: list[str] = []
    lost: list[MCPError] = []

    async def collect(wanted: _List) -> None:
        items: list[Any] = []
        found[wanted.what] = items
        try:
            if note := await _collect(wanted, items, seconds):
                notes.append(note)
        except MCPError as error:
            lost.append(error)  # a task group would make a group of it

    async with anyio.create_task_group() as group:
        for wanted in _lists(client):
            group.start_soon(collect, wanted)
    if lost:
        raise lost[0]
    tools = {tool.name: tool for tool in map(_tool, reversed(found.get("tools", ())))}
    templates = [_template(each) for each in found.get("resource templates", ())]
    return Catalogue(
        tools=tuple(reversed(tools.values())),
        prompts=tuple(map(_prompt, found.get("prompts", ()))),
        resources=(*map(_resource, found.get("resources", ())), *templates),
        notes=tuple(notes),
    )


def _lists(client: "Client") -> Iterable[_List]:
    can = client.server_capabilities

    async def tools(cursor: str | None) -> tuple[Iterable[Any], str | None]:
        page = await client.list_tools(cursor=cursor)
        return page.tools, page.next_cursor

    async def prompts(cursor: str | None) -> tuple[Iterable[Any], str | None]:
        page = await client.list_prompts(cursor=cursor)
        return page.prompts, page.next_cursor

    async def resources(cursor: str | None) -> tuple[Iterable[Any], str | None]:
        page = await client.list_resources(cursor=cursor)
        return page.resources, page.next_cursor

    async def templates(cursor: str | None) -> tuple[Iterable[Any], str | None]:
        page = await client.list_resource_templates(cursor=cursor)
        return page.resource_templates, page.next_cursor

    if can.tools is not None:
        yield _List(what="tools", fetch=tools)
    if can.prompts is not None:
        yield _List(what="prompts", fetch=prompts)
    if can.resources is not None:
        yield _List(what="resources", fetch=resources)
        yield _List(what="resource templates", fetch=templates)


async def _collect(wanted: _List, items: list[Any], seconds: float) -> str:
    """Fill `items` page by page; what is missing is said in a sentence."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

    cursor: str | None = None
    with anyio.move_on_after(seconds):
        for _ in range(MOST_PAGES):
            try:
                page, cursor = await wanted.fetch(cursor)
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    raise
                missing = error.code == METHOD_NOT_FOUND
                return "" if missing else f"Its {wanted.what} could not be listed: {_said(error)}"
            except (ValueError, RuntimeError) as error:
                return f"Its list of {wanted.what} is not valid: {_said(error)}"
            items += page
            if len(items) > MOST:
                del items[MOST:]
                break
            if cursor is None:
                return ""
        return f"Of its {wanted.what} only the first {len(items)} are known: it has too many."
    return (
        f"Of its {wanted.what} only {len(items)} are known: the list took more than {seconds:g} s."
    )


def _said(error: Exception) -> str:
    return visible_line(str(error), 300)


def _tool(tool: Any) -> ToolOffer:
    return ToolOffer(
        name=visible_line(tool.name, LONGEST_NAME),
        description=visible(tool.description or "", LONGEST_DESCRIPTION),
        schema=tool.input_schema,
    )


def _prompt(prompt: Any) -> PromptOffer:
    return PromptOffer(
        name=visible_line(prompt.name, LONGEST_NAME),
        description=visible_line(prompt.description or "", LONGEST_DESCRIPTION),
        arguments=tuple(
            PromptArgument(
                name=visible_line(each.name, LONGEST_NAME),
                description=visible_line(each.description or "", LONGEST_DESCRIPTION),
                required=bool(each.required),
            )
            for each in prompt.arguments or ()
        ),
    )


def _resource(resource: Any) -> ResourceOffer:
    return ResourceOffer(
        uri=visible_line(str(resource.uri), LONGEST_URI),
        name=visible_line(resource.name or "", LONGEST_NAME),
        description=visible_line(resource.description or "", LONGEST_DESCRIPTION),
    )


def _template(template: Any) -> ResourceOffer:
    return ResourceOffer(
        uri=visible_line(template.uri_template, LONGEST_URI),
        name=visible_line(template.name or "", LONGEST_NAME),
        description=visible_line(template.description or "", LONGEST_DESCRIPTION),
        template=True,
    )
