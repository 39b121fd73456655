"""What a client sends: capabilities, parameters of requests, and the content of prompts.

Unknown fields are ignored, because the protocol grows by adding fields.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from os.path import normpath
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct, field

from rookery.compat.acp.tool_calls import Wire
from rookery.core.blocks import TOGETHER, Image, Sight, picture
from rookery.core.instructions import PIPED_TEXT, mention_of, quoted
from rookery.core.limits import Limits
from rookery.core.text.characters import as_utf8
from rookery.first_use import prepared
from rookery.protocol.jsonrpc import INVALID_PARAMS, RpcError

T = TypeVar("T")
LONGEST_PATH = 4095
MOST_IMAGES = 20


class Fields(Struct, frozen=True, rename="camel"):
    """Parameters, in Python's spelling."""


class FileAccess(Fields, frozen=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ShownUpdates(Fields, frozen=True):
    compaction: Wire | None = None
    notices: Wire | None = None


class SignInSupport(Fields, frozen=True):
    terminal: bool = False


class Forms(Fields, frozen=True):
    form: Wire | None = None


class ClientCapabilities(Fields, frozen=True):
    fs: FileAccess | None = None
    terminal: bool = False
    """Whether it runs programs in terminals."""
    session: ShownUpdates | None = None
    auth: SignInSupport | None = None
    elicitation: Forms | None = None
    meta: Wire | None = field(default=None, name="_meta")

    @property
    def shows_notices(self) -> bool:
        return self.session is not None and self.session.notices is not None

    @property
    def shows_compaction(self) -> bool:
        return self.session is not None and self.session.compaction is not None

    @property
    def shows_forms(self) -> bool:
        """Whether it shows forms for questions of the model."""
        return self.elicitation is not None and self.elicitation.form is not None

    @property
    def shows_terminals(self) -> bool:
        """Whether it shows output that we send as a terminal. Zed announces it this way."""
        return (self.meta or {}).get("terminal_output") is True


class InitializeParams(Fields, frozen=True):
    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()


class NamedValue(Struct, frozen=True):
    name: str
    value: str


class GivenServer(Struct, frozen=True, kw_only=True):
    """An MCP server of the client; without a type it is a program."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = field(default_factory=list)
    env: list[NamedValue] = field(default_factory=list)
    url: str = ""
    headers: list[NamedValue] = field(default_factory=list)

    def definition(self) -> Wire:
        """As in a configuration file of MCP servers."""
        if self.type == "stdio":
            env = {each.name: each.value for each in self.env}
            return {"type": "stdio", "command": self.command, "args": self.args, "env": env}
        headers = {each.name: each.value for each in self.headers}
        return {"type": self.type, "url": self.url, "headers": headers}


class SessionParams(Fields, frozen=True, kw_only=True):
    cwd: str
    mcp_servers: list[GivenServer] = field(default_factory=list)
    additional_directories: list[str] = field(default_factory=list)
    session_id: str = ""


class NamedSession(Fields, frozen=True):
    session_id: str


class PromptParams(Fields, frozen=True):
    session_id: str
    prompt: list[Wire]


class ModeParams(Fields, frozen=True):
    session_id: str
    mode_id: str


class OptionParams(Fields, frozen=True):
    session_id: str
    config_id: str
    value: str | bool


class ListParams(Fields, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class SignInParams(Fields, frozen=True):
    method_id: str


class CancelledRequest(Fields, frozen=True):
    request_id: int | str | None


def parse(params: object, into: type[T], method: str) -> T:
    """Raises `RpcError` with a sentence if the parameters do not fit."""
    try:
        return msgspec.convert({} if params is None else params, prepared(into))
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"{method}: {error}. Nothing was done.") from error


class PromptContent(Struct, frozen=True):
    """The words and images of a prompt."""

    text: str
    images: tuple[Image, ...] = ()


def prompt_content(blocks: Iterable[Wire], cwd: str) -> PromptContent:
    """Turn the blocks of a prompt into a message. Linked files of the workspace become mentions;
    embedded files follow the words as quoted material."""
    words: list[str] = []
    attached: list[str] = []
    images: list[Image] = []
    for number, block in enumerate(blocks, 1):
        match block:
            case {"type": "text", "text": str(text)}:
                words.append(text)
            case {"type": "image", "mimeType": str(kind), "data": str(data)}:
                images.append(_image(kind, data, number, images))
            case {"type": "resource_link", "uri": str(uri)}:
                words.append(f" {_link(uri, str(block.get('name') or uri), cwd)} ")
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                words.append(f" {_path_in(uri) or uri} ")
                attached.append(f"{_path_in(uri) or uri}:\n{quoted(PIPED_TEXT, text)}")
            case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data)} as resource}:
                kind = str(resource.get("mimeType") or "")
                if not kind.startswith("image/"):
                    raise _bad(number, f"{uri} is not text or an image; link it instead")
                images.append(_image(kind, data, number, images))
            case {"type": str(kind)}:
                raise _bad(number, f"type {kind!r} is not supported, or it is incomplete")
            case _:
                raise _bad(number, "a block needs a type")
    text = "\n\n".join(["".join(words).strip(), *attached])
    if not (text.strip() or images):
        raise RpcError(INVALID_PARAMS, "The prompt is empty. Nothing was sent to the model.")
    return PromptContent(as_utf8(text), tuple(images))


def _bad(number: int, problem: str) -> RpcError:
    sentence = f"Block {number} of the prompt: {problem}. Nothing was sent to the model."
    return RpcError(INVALID_PARAMS, sentence)


def _image(kind: str, data: str, number: int, others: Sequence[Image]) -> Image:
    try:
        read = base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error) as error:
        raise _bad(number, "its data is not base64") from error
    if len(others) >= MOST_IMAGES:
        raise _bad(number, f"a prompt can have at most {MOST_IMAGES} images")
    room = TOGETHER - sum(len(each.data) * 3 // 4 for each in others)
    shown = picture(read, Sight(sees=True, most=Limits().image_bytes, room=room))
    if shown is None:
        raise _bad(number, f"its data ({kind[:40]}) is not a PNG, JPEG, GIF or WebP image")
    if shown.image is None:
        raise _bad(number, shown.words)
    return shown.image


def _link(uri: str, name: str, cwd: str) -> str:
    """A mention of a file in the workspace; other addresses are named."""
    path = PurePosixPath(_path_in(uri) or "/")
    if path.is_relative_to(cwd) and path != PurePosixPath(cwd):
        return mention_of(str(path.relative_to(cwd)))
    return f"{name} ({_path_in(uri) or uri})" if name not in uri else _path_in(uri) or uri


def _path_in(uri: str) -> str:
    """The path of a file's address; empty for other addresses."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return normpath(unquote(parts.path)) if parts.scheme == "file" and parts.path else ""


def server_definitions(servers: Iterable[GivenServer]) -> dict[str, Any]:
    return {each.name: each.definition() for each in servers}


def absolute_paths(*paths: str) -> Iterator[str]:
    """The paths, all of which must be absolute. Raises `RpcError`."""
    for path in paths:
        if not PurePosixPath(path).is_absolute() or "\0" in path or len(path) > LONGEST_PATH:
            raise RpcError(INVALID_PARAMS, f"Give absolute paths, not {path[:60]!r}.")
        yield path
