"""The tools that `rookery mcp serve` offers, and their arguments."""

from collections.abc import Collection
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rookery.errors import SettingsError
from rookery.first_use import prepared

_FOLDER = Meta(description="Folder to work in, inside the server's folder. Default: that folder.")
_SESSION = Meta(description="The id of a session.")
MOST_LISTED = 100


class StartSessionArgs(Struct, forbid_unknown_fields=True, kw_only=True):
    """Give a coding task to rookery, another coding agent. It reads and edits files and runs
    commands in the folder. Returns when it is done, or when it asks a question: answer that with
    send_message. Actions that need approval are decided by the user, never by you."""

    prompt: Annotated[str, Meta(description="The task, with everything the agent must know.")]
    folder: Annotated[str, _FOLDER] = ""
    mode: Annotated[str, Meta(description="Such as code, ask or architect.")] = ""
    model: Annotated[str, Meta(description="A model, as MODEL or PROVIDER:MODEL.")] = ""


class SendMessageArgs(Struct, forbid_unknown_fields=True, kw_only=True):
    """Continue a session: answer its question, or give it the next task. Returns when it is done,
    or when it asks. An action that waits for approval is rejected, with the message as reason, or
    the user is asked again if this client can ask."""

    session_id: Annotated[str, _SESSION]
    message: Annotated[str, Meta(description="The answer or the next task.")]


class ReadSessionArgs(Struct, forbid_unknown_fields=True, kw_only=True):
    """Read the status and the last answer of a session. If its last turn ran here, also its
    question, the action that waits for approval, and the diffs of changed files."""

    session_id: Annotated[str, _SESSION]


class ListSessionsArgs(Struct, forbid_unknown_fields=True, kw_only=True):
    """List the stored sessions of the server's folder, newest first."""

    folder: Annotated[str, _FOLDER] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 20


class CancelSessionArgs(Struct, forbid_unknown_fields=True, kw_only=True):
    """Stop the running turn of a session. The session is kept and can be continued."""

    session_id: Annotated[str, _SESSION]


TOOLS: dict[str, type[Struct]] = {
    "start_session": StartSessionArgs,
    "send_message": SendMessageArgs,
    "read_session": ReadSessionArgs,
    "list_sessions": ListSessionsArgs,
    "cancel_session": CancelSessionArgs,
}
_READ_ONLY = ("read_session", "list_sessions")


def tool_list(fixed: Collection[str]) -> list[dict[str, Any]]:
    """The tools for the client. Arguments that are `fixed` by a flag are not offered."""
    return [_tool(name, arguments, fixed) for name, arguments in TOOLS.items()]


def _tool(name: str, arguments: type[Struct], fixed: Collection[str]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([arguments])
    schema = parts[arguments.__name__]
    properties = {key: each for key, each in schema["properties"].items() if key not in fixed}
    return {
        "name": name,
        "description": " ".join((arguments.__doc__ or "").split()),
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": schema.get("required", []),
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": name in _READ_ONLY},
    }


def parse_arguments(name: str, given: object, fixed: Collection[str]) -> Struct:
    """Raises `SettingsError` for wrong arguments."""
    if name not in TOOLS:
        raise SettingsError(f"There is no tool {name!r}. The tools are {', '.join(TOOLS)}.")
    try:
        read = msgspec.convert({} if given is None else given, prepared(TOOLS[name]))
    except msgspec.ValidationError as error:
        raise SettingsError(f"{name}: {error}. Nothing was done.") from error
    for field in fixed:
        if getattr(read, field, ""):
            raise SettingsError(f"{name}: the user set the {field} for this server. Leave it out.")
    return read
