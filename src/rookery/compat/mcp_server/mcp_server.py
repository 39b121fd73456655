"""Answers the requests of an MCP client over one connection. Turns of sessions run side by side.

It speaks the versions that begin with `initialize`. Newer clients ask `server/discover` first, get
"method not found", and then initialize as the protocol tells them to.
"""

import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from rookery import NAME, VERSION
from rookery.compat.acp.folders import Backend, OpenedFolder, WantedFolder
from rookery.compat.driver import check_mode
from rookery.compat.mcp_server.session_call import CallResult, SessionCall, last_answer
from rookery.compat.mcp_server.tool_list import (
    CancelSessionArgs,
    ListSessionsArgs,
    ReadSessionArgs,
    SendMessageArgs,
    StartSessionArgs,
    parse_arguments,
    tool_list,
)
from rookery.core.commands import OpenTask, ReopenTask
from rookery.core.facts import Event
from rookery.core.queries import AskAbout, AskModels, KnownTask
from rookery.errors import RookeryError, SettingsError, StorageError, first_error
from rookery.protocol.channels import Channel
from rookery.protocol.codec import Host
from rookery.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Disconnected,
    Params,
    Peer,
    RpcError,
)

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
GRACE = 1.0
"""Seconds to finish requests after the client has closed the connection."""
MOST_RUNNING = 16
"""Sessions that work at the same time."""
MOST_RESULTS = 100
"""Results that are kept to be read again."""
INSTRUCTIONS = (
    "Start a session with start_session. It returns the agent's answer, or a question that you "
    "answer with send_message, or an action that waits for the user's approval: tell the user. "
    "`refused` lists actions that were not approved: they were not done. `changes` has the diffs."
)


class _RunningCall:
    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()


class SessionServer:
    def __init__(
        self, channel: Channel, sessions: Backend, root: Path, *, fixed: Collection[str] = ()
    ) -> None:
        """Sessions work in `root` and below. `fixed` are arguments that the user set by flags."""
        self._peer = Peer(channel, self, grace=GRACE)
        self._stored = sessions
        self._root = root
        self._fixed = fixed
        self._forms: bool | None = None
        """Whether the client can ask the user; None before `initialize`."""
        self._running: dict[str, _RunningCall] = {}
        self._results: dict[str, tuple[int, CallResult]] = {}
        """Each with the number of the session's last event."""

    async def run(self) -> None:
        """Run until the client closes the connection."""
        await self._peer.run()

    async def answer(self, method: str, params: Params) -> object:
        given = params if isinstance(params, dict) else {}
        match method:
            case "initialize":
                return self._initialize(given)
            case "ping":
                return {}
            case "tools/list" | "tools/call" if self._forms is None:
                raise RpcError(INVALID_REQUEST, "Send initialize first.")
            case "tools/list":
                return {"tools": tool_list(self._fixed)}
            case "tools/call":
                return await self._call(given)
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"There is no method {method!r}.")

    async def on_notification(self, method: str, params: Params) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            number = params.get("requestId")
            if isinstance(number, str | int):
                self._peer.cancel(number)

    def _initialize(self, given: dict[str, Any]) -> dict[str, Any]:
        match given.get("capabilities"):
            case {"elicitation": {**ways}}:
                # before 2025-11-25 an empty object stands for forms
                self._forms = not ways or "form" in ways
            case _:
                self._forms = False
        wanted = given.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "title": NAME.capitalize(), "version": VERSION},
            "instructions": INSTRUCTIONS,
        }

    async def _call(self, given: dict[str, Any]) -> dict[str, Any]:
        name = given.get("name")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "tools/call: name is missing. Nothing was done.")
        try:
            arguments = parse_arguments(name, given.get("arguments"), self._fixed)
            return _tool_result(await self._perform(arguments, self._progress(given)))
        except (RpcError, Disconnected):
            raise
        except RookeryError as error:
            return _tool_error(str(error))
        except BaseExceptionGroup as group:
            # a host reports failures of its tasks together
            ours, rest = group.split(RookeryError)
            if rest or ours is None:
                raise
            return _tool_error(str(first_error(ours)))

    async def _perform(self, arguments: Struct, progress: Callable[[str], None]) -> object:
        match arguments:
            case StartSessionArgs():
                return await self._start(arguments, progress)
            case SendMessageArgs():
                return await self._continue(arguments, progress)
            case ReadSessionArgs(session_id=session_id):
                return await self._read(session_id)
            case ListSessionsArgs():
                return await self._list(arguments)
            case CancelSessionArgs(session_id=session_id):
                return await self._cancel(session_id)
            case _:
                raise AssertionError(arguments)

    async def _start(self, given: StartSessionArgs, progress: Callable[[str], None]) -> object:
        if not given.prompt.strip():
            raise SettingsError("start_session: prompt is empty. Nothing was done.")
        wanted = WantedFolder(cwd=str(self._inside(given.folder)))
        session_id = str(uuid.uuid4())

        async def first(folder: OpenedFolder) -> OpenTask:
            opened = OpenTask(task_id=session_id, text=given.prompt)
            return await _with_choices(opened, folder.host, given)

        return await self._turn(session_id, wanted, first, "", progress)

    async def _continue(self, given: SendMessageArgs, progress: Callable[[str], None]) -> object:
        if not given.message.strip():
            raise SettingsError("send_message: message is empty. Nothing was done.")
        known = await self._find(given.session_id)
        wanted = WantedFolder(cwd=known.workspace, session_id=known.task_id)

        async def first(folder: OpenedFolder) -> ReopenTask:
            return ReopenTask(task_id=known.task_id)

        return await self._turn(known.task_id, wanted, first, given.message, progress)

    async def _turn(
        self,
        session_id: str,
        wanted: WantedFolder,
        first: Callable[[OpenedFolder], Awaitable[OpenTask | ReopenTask]],
        message: str,
        progress: Callable[[str], None],
    ) -> object:
        """Run a turn with a host of its own. Closing the host keeps the session."""
        if session_id in self._running:
            raise SettingsError(f"Session {session_id} is working. Wait, or cancel it.")
        if len(self._running) >= MOST_RUNNING:
            busy = f"{MOST_RUNNING} sessions are working. Wait for one, or cancel it."
            raise SettingsError(f"{busy} Nothing was done.")
        turn = self._running[session_id] = _RunningCall()
        call = SessionCall(self._peer, forms=bool(self._forms), message=message, progress=progress)
        try:
            with turn.scope:
                async with self._stored.open(wanted) as folder:
                    result = await call.start(folder, await first(folder))
                with suppress(StorageError):  # it was deleted meanwhile
                    self._keep(session_id, result, await self._stored.events(session_id))
                return result
        finally:
            del self._running[session_id]
            turn.ended.set()
        reason = "The turn was cancelled. Continue it with send_message."
        return {"session_id": session_id, "status": "stopped", "reason": reason}

    def _keep(self, session_id: str, result: CallResult, stored: Sequence[Event]) -> None:
        self._results.pop(session_id, None)
        self._results[session_id] = (stored[-1].seq, result)
        if len(self._results) > MOST_RESULTS:
            del self._results[next(iter(self._results))]

    async def _read(self, session_id: str) -> object:
        known = await self._find(session_id)
        stored = await self._stored.events(session_id)
        answer = last_answer(stored)
        at, last = self._results.get(session_id, (0, None))
        # the user may have continued it elsewhere
        if last is None or at != stored[-1].seq or session_id in self._running:
            return {**self._listed(known), "answer": answer}
        return {**self._listed(known), **msgspec.to_builtins(last), "answer": answer}

    async def _list(self, given: ListSessionsArgs) -> object:
        folder = self._inside(given.folder)
        known = [
            self._listed(each)
            for each in await self._stored.sessions("")
            if not each.parent and Path(each.workspace).is_relative_to(folder)
        ]
        return {"sessions": known[: given.limit]}

    async def _cancel(self, session_id: str) -> object:
        turn = self._running.get(session_id)
        if turn is None:
            await self._find(session_id)
            return {"session_id": session_id, "cancelled": False, "reason": "It was not working."}
        turn.scope.cancel()
        await turn.ended.wait()
        return {"session_id": session_id, "cancelled": True}

    async def _find(self, session_id: str) -> KnownTask:
        """A session of this server's folder. Others are as unknown as missing ones."""
        for each in await self._stored.sessions(""):
            inside = Path(each.workspace).is_relative_to(self._root)
            if each.task_id == session_id and inside and not each.parent:
                return each
        raise SettingsError(f"There is no session {session_id!r} in {self._root}.")

    def _listed(self, known: KnownTask) -> dict[str, Any]:
        return {
            "session_id": known.task_id,
            "title": known.title,
            "folder": known.workspace,
            "status": "working" if known.task_id in self._running else known.status,
        }

    def _inside(self, folder: str) -> Path:
        """The folder of a session. Raises `SettingsError` outside the server's folder."""
        try:
            wanted = (self._root / folder).resolve()
            exists = wanted.is_dir()
        except (OSError, ValueError) as error:
            raise SettingsError(f"{folder[:60]!r} is not a folder. Nothing was done.") from error
        if not wanted.is_relative_to(self._root):
            raise SettingsError(f"{wanted} is outside {self._root}. Nothing was done.")
        if not exists:
            raise SettingsError(f"No such folder: {wanted}. Nothing was done.")
        return wanted

    def _progress(self, given: dict[str, Any]) -> Callable[[str], None]:
        match given.get("_meta"):
            case {"progressToken": str() | int() as token}:
                numbers = count(1)
            case _:
                return lambda line: None

        def report(line: str) -> None:
            if self._peer.has_room:  # a client that does not read gets the result only
                said = {"progressToken": token, "progress": next(numbers), "message": line}
                self._peer.notify("notifications/progress", said)

        return report


async def _with_choices(opened: OpenTask, host: Host, given: StartSessionArgs) -> OpenTask:
    """Raises `SettingsError` for a mode or a model that there is not."""
    await check_mode(host, given.mode)
    mode = given.mode or (await host.query(AskAbout())).mode
    opened = msgspec.structs.replace(opened, mode=mode)
    if not given.model:
        return opened
    for each in await host.query(AskModels()):
        if given.model in (each.model, f"{each.provider}:{each.model}"):
            chosen = {"provider": each.provider, "model": each.model}
            return msgspec.structs.replace(opened, **chosen)
    raise SettingsError(f"No such model: {given.model!r}. Leave it out for the user's model.")


def _tool_result(value: object) -> dict[str, Any]:
    structured = msgspec.to_builtins(value)
    text = msgspec.json.format(msgspec.json.encode(structured)).decode()
    failed = structured.get("status") == "failed"
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": structured,
        "isError": failed,
    }


def _tool_error(sentence: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": sentence}], "isError": True}
