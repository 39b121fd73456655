"""What a webview is answered when it looks something up."""

from collections.abc import Mapping, Sequence

from rookery.compat.json_io.message_rows import Wire
from rookery.compat.json_io.request_types import (
    CompareFiles,
    FindFiles,
    Request,
    ReviewMessage,
    WantModels,
)
from rookery.compat.structured_output.output_rows import output
from rookery.core.queries import (
    FileDifference,
    FoundPath,
    KnownCommand,
    KnownMcpServer,
    KnownMode,
    KnownModel,
)

SOURCES = {"user": "global"}
"""Whose commands and modes are called differently there."""


def commands(known: tuple[KnownCommand, ...]) -> Wire:
    listed = [
        output(
            name=each.name,
            source=SOURCES.get(each.source, each.source),
            description=each.description or None,
            argumentHint=each.argument_hint or None,
        )
        for each in known
    ]
    return {"type": "commands", "commands": listed}


def modes(known: tuple[KnownMode, ...]) -> Wire:
    listed = [
        output(
            slug=each.slug,
            name=each.name,
            whenToUse=each.when_to_use or None,
            source=SOURCES.get(each.source, each.source),
        )
        for each in known
    ]
    return {"type": "modes", "modes": listed}


def models(known: tuple[KnownModel, ...], provider: str = "") -> Wire:
    """The models by provider, or those of one provider."""
    tables: dict[str, Wire] = {provider: {}} if provider else {}
    for each in known:
        tables.setdefault(each.provider, {})[each.model] = _model(each)
    if not provider:
        return {"type": "routerModels", "routerModels": tables}
    return _fetched(provider, tables[provider])


def files(found: tuple[FoundPath, ...], request: FindFiles) -> Wire:
    results = [
        {
            "path": each.path,
            "type": "folder" if each.folder else "file",
            "label": each.path.rstrip("/").rpartition("/")[2],
        }
        for each in found
    ]
    return output(type="fileSearchResults", results=results, requestId=request.request_id or None)


def differences(found: tuple[FileDifference, ...], request: CompareFiles) -> Wire:
    """There is no editor to open them in, so they are told."""
    listed = [output(path=each.path, change=each.change, diff=each.diff or None) for each in found]
    return output(type="checkpointDiffResult", ts=request.row, mode=request.span, files=listed)


def servers(known: tuple[KnownMcpServer, ...]) -> Wire:
    listed = [
        output(
            name=each.name,
            config="{}",
            status="connected" if each.state == "connected" else "disconnected",
            disabled=each.state == "disabled",
            source=SOURCES.get(each.source, each.source),
            error=each.error or None,
            tools=[{"name": tool} for tool in each.tools],
        )
        for each in known
    ]
    return {"type": "mcpServers", "mcpServers": listed}


def review(request: ReviewMessage, *, has_checkpoint: bool) -> Wire:
    """What the webview shows before a message is deleted or changed."""
    asked = "Delete" if request.text is None else "Edit"
    return output(
        type=f"show{asked}MessageDialog",
        messageTs=request.row,
        hasCheckpoint=has_checkpoint,
        text=request.text,
        images=list(request.images) or None,
    )


def unloaded(problems: Sequence[Mapping[str, str]]) -> Wire:
    names = ", ".join(each["path"] for each in problems)
    return {
        "type": "image_load_error",
        "errors": list(problems),
        "message": f"These pictures could not be shown and were left out: {names}.",
    }


def not_found(request: Request, reason: str) -> Wire:
    match request:
        case FindFiles(request_id=request_id):
            asked = request_id or None
            return output(type="fileSearchResults", results=[], requestId=asked, error=reason)
        case WantModels(only_ours=True):
            return {**_fetched("", {}), "success": False, "error": reason}
        case _:
            return {"event": "error", "error": reason}


def _fetched(provider: str, table: Wire) -> Wire:
    return {
        "type": "singleRouterModelFetchResponse",
        "success": True,
        "values": {"provider": provider, "models": table},
    }


def _model(known: KnownModel) -> Wire:
    return output(
        contextWindow=known.window or None,
        supportsImages=known.images,
        inputPrice=known.price_in,
        outputPrice=known.price_out,
    )
