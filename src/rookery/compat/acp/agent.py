"""Answers the requests of an ACP client. One process has any number of sessions."""

import sys
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from rookery import NAME, VERSION
from rookery.compat.acp.choices import MODE, session_choices
from rookery.compat.acp.folders import Backend, EditorFiles, SignInNeeded, WantedFolder
from rookery.compat.acp.questions import AUTH_REQUIRED
from rookery.compat.acp.requests import (
    CancelledRequest,
    ClientCapabilities,
    Fields,
    InitializeParams,
    ListParams,
    ModeParams,
    NamedSession,
    OptionParams,
    PromptParams,
    SessionParams,
    SignInParams,
    absolute_paths,
    parse,
    prompt_content,
    server_definitions,
)
from rookery.compat.acp.session import AcpSession
from rookery.compat.acp.tool_calls import Wire
from rookery.core.queries import AskAbout, AskModels, AskModes, AskPermissions, KnownTask
from rookery.core.text.terminal_text import harmless
from rookery.errors import RookeryError, SettingsError, first_error
from rookery.protocol.channels import Channel
from rookery.protocol.codec import Host
from rookery.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Params,
    Peer,
    RpcError,
)

PROTOCOL_VERSION = 1
NOT_FOUND = -32002
GRACE = 1.0
"""Seconds to finish requests after the editor has closed the connection."""
MOST_REQUESTS = 1000
"""A prompt is one until its turn ends."""
PAGE = 100
"""Sessions in one answer to session/list."""
KEY_METHOD, TERMINAL_METHOD = "key", "terminal"
UNTRUSTED = (
    "This folder is not trusted: its settings, rules and tools are not used. "
    f"To use them: {NAME} trust"
)


class AcpAgent:
    def __init__(self, channel: Channel, backend: Backend) -> None:
        self._backend = backend
        self._peer = Peer(channel, self, grace=GRACE, refuse_above=MOST_REQUESTS)
        self._group: TaskGroup
        self._client: ClientCapabilities | None = None
        self._sessions: dict[str, _KeptSession] = {}

    async def run(self) -> None:
        """Run until the client closes the connection."""
        async with anyio.create_task_group() as self._group:
            await self._peer.run()
            self._group.cancel_scope.cancel()

    async def answer(self, method: str, params: Params) -> object:
        handlers: dict[str, tuple[type[Any], Callable[[Any], Awaitable[Wire]]]] = {
            "initialize": (InitializeParams, self._initialize),
            "authenticate": (SignInParams, self._authenticate),
            "logout": (Fields, self._log_out),
            "session/new": (SessionParams, self._new),
            "session/load": (SessionParams, partial(self._continue, replay=True)),
            "session/resume": (SessionParams, partial(self._continue, replay=False)),
            "session/fork": (SessionParams, self._fork),
            "session/list": (ListParams, self._list),
            "session/close": (NamedSession, self._close),
            "session/delete": (NamedSession, self._delete),
            "session/prompt": (PromptParams, self._prompt),
            "session/set_mode": (ModeParams, self._set_mode),
            "session/set_config_option": (OptionParams, self._set_option),
        }
        if method not in handlers:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method!r}.")
        if self._client is None and method != "initialize":
            raise RpcError(INVALID_REQUEST, "Send initialize first.")
        expected, handle = handlers[method]
        try:
            return await handle(parse(params, expected, method))
        except SignInNeeded as error:
            raise RpcError(AUTH_REQUIRED, str(error)) from error
        except RpcError:
            raise
        except SettingsError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from error
        except RookeryError as error:
            raise RpcError(INTERNAL_ERROR, str(error)) from error

    async def on_notification(self, method: str, params: Params) -> None:
        match method:
            case "session/cancel":
                named = parse(params, NamedSession, method)
                if kept := self._sessions.get(named.session_id):
                    await kept.session.cancel()
            case "$/cancel_request":
                self._peer.cancel(parse(params, CancelledRequest, method).request_id)
            case _:
                pass

    async def _initialize(self, given: InitializeParams) -> Wire:
        self._client = given.client_capabilities
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": NAME, "title": NAME.capitalize(), "version": VERSION},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "auth": {"logout": {}},
                "sessionCapabilities": {
                    "list": {},
                    "delete": {},
                    "resume": {},
                    "fork": {},
                    "close": {},
                    "additionalDirectories": {},
                },
            },
            "authMethods": _sign_in_methods(self._client),
        }

    async def _authenticate(self, given: SignInParams) -> Wire:
        if given.method_id != KEY_METHOD:
            known = f"Use {KEY_METHOD!r}, or run in a terminal: {NAME} auth"
            raise RpcError(INVALID_PARAMS, f"authenticate: no method {given.method_id!r}. {known}")
        await self._backend.check_model()
        return {}

    async def _log_out(self, given: Fields) -> Wire:
        await self._backend.log_out()
        return {}

    async def _new(self, given: SessionParams) -> Wire:
        session_id = str(uuid.uuid4())
        session = await self._open(given, session_id, stored=False, replay=False)
        return {"sessionId": session_id, **_state(session)}

    async def _continue(self, given: SessionParams, *, replay: bool) -> Wire:
        if not given.session_id:
            method = "session/load" if replay else "session/resume"
            raise RpcError(INVALID_PARAMS, f"{method}: sessionId is missing. Nothing was done.")
        await self._leave(given.session_id)
        session = await self._open(given, given.session_id, stored=True, replay=replay)
        return _state(session)

    async def _fork(self, given: SessionParams) -> Wire:
        await self._check_stored(given.session_id)
        session_id = str(uuid.uuid4())
        await self._backend.fork(given.session_id, session_id)
        session = await self._open(given, session_id, stored=True, replay=False)
        return {"sessionId": session_id, **_state(session)}

    async def _check_stored(self, session_id: str) -> None:
        if not await self._is_stored(session_id):
            raise _no_session(session_id)

    async def _is_stored(self, session_id: str) -> bool:
        return any(each.task_id == session_id for each in await self._backend.sessions(""))

    async def _open(
        self, given: SessionParams, session_id: str, *, stored: bool, replay: bool
    ) -> AcpSession:
        wanted = WantedFolder(
            cwd=next(absolute_paths(given.cwd)),
            added=tuple(absolute_paths(*given.additional_directories)),
            servers=server_definitions(given.mcp_servers),
            session_id=session_id if stored else "",
            files=self._editor_files(session_id, given.cwd),
        )
        if stored:
            await self._check_stored(session_id)
        kept = await self._group.start(self._keep, wanted, session_id, replay)
        assert isinstance(kept, _KeptSession)
        self._sessions[session_id] = kept
        # the client learns of the session with the answer, so this follows it
        kept.session.introduce_soon("" if kept.trusted else UNTRUSTED)
        return kept.session

    def _editor_files(self, session_id: str, cwd: str) -> EditorFiles | None:
        access = self._client.fs if self._client else None
        if access is None or not (access.read_text_file or access.write_text_file):
            return None
        return EditorFiles(self._peer, session_id, access, cwd)

    async def _keep(
        self,
        wanted: WantedFolder,
        session_id: str,
        replay: bool,
        *,
        task_status: TaskStatus["_KeptSession"],
    ) -> None:
        """Hold the host of a session until it is closed. Its failure ends no other session."""
        kept: _KeptSession | None = None
        try:
            async with self._backend.open(wanted) as folder, anyio.create_task_group() as group:
                session = await self._session(wanted, session_id, folder.host, group)
                if wanted.session_id:
                    await session.load(folder.stored, replay=replay)
                kept = _KeptSession(session, folder.trusted)
                task_status.started(kept)
                await kept.closing.wait()
                group.cancel_scope.cancel()
        except Exception as error:
            cause = first_error(error)
            if kept is None:
                raise cause from error
            print(f"Error: {harmless(str(cause))}", file=sys.stderr)
            kept.session.end_turn(error=RpcError(INTERNAL_ERROR, f"{cause} The session is kept."))
        finally:
            if kept:
                self._sessions.pop(session_id, None)
                kept.closed.set()

    async def _session(
        self, wanted: WantedFolder, session_id: str, host: Host, group: TaskGroup
    ) -> AcpSession:
        modes, models = await host.query(AskModes()), await host.query(AskModels())
        choices = session_choices(
            await host.query(AskAbout()), modes, models, await host.query(AskPermissions())
        )
        client = self._client or ClientCapabilities()
        return AcpSession(session_id, wanted.cwd, host, self._peer, group, choices, client)

    async def _list(self, given: ListParams) -> Wire:
        cursor = given.cursor or ""
        start = int(cursor) if cursor.isdecimal() else 0
        folder = next(absolute_paths(given.cwd)) if given.cwd else ""
        known = [each for each in await self._backend.sessions(folder) if not each.parent]
        page, more = known[start : start + PAGE], len(known) > start + PAGE
        listed = [_listed(each) for each in page]
        return {"sessions": listed, **({"nextCursor": str(start + PAGE)} if more else {})}

    async def _close(self, given: NamedSession) -> Wire:
        await self._leave(self._find(given.session_id).id)
        return {}

    async def _delete(self, given: NamedSession) -> Wire:
        session_id = given.session_id
        was_open = session_id in self._sessions
        await self._leave(session_id)
        if await self._is_stored(session_id):
            await self._backend.delete(session_id)
        elif not was_open:  # without a prompt, nothing is stored
            raise _no_session(session_id)
        return {}

    async def _leave(self, session_id: str) -> None:
        """Cancel the work of a session and close its host, if it is open."""
        if kept := self._sessions.get(session_id):
            await kept.session.stop()
            kept.closing.set()
            await kept.closed.wait()

    async def _prompt(self, given: PromptParams) -> Wire:
        session = self._find(given.session_id)
        return {"stopReason": await session.prompt(prompt_content(given.prompt, session.cwd))}

    async def _set_mode(self, given: ModeParams) -> Wire:
        await self._find(given.session_id).choose(MODE, given.mode_id)
        return {}

    async def _set_option(self, given: OptionParams) -> Wire:
        session = self._find(given.session_id)
        await session.choose(given.config_id, given.value)
        return {"configOptions": session.choices.config_options()}

    def _find(self, session_id: str) -> AcpSession:
        if kept := self._sessions.get(session_id):
            return kept.session
        raise _no_session(session_id)


class _KeptSession:
    """A session whose host is open."""

    def __init__(self, session: AcpSession, trusted: bool) -> None:
        self.session = session
        self.trusted = trusted
        self.closing = anyio.Event()
        self.closed = anyio.Event()


def _sign_in_methods(client: ClientCapabilities) -> list[Wire]:
    stored = {
        "id": KEY_METHOD,
        "name": "Key of this machine",
        "description": f"Uses the key from the environment or from {NAME} auth.",
    }
    terminal = {
        "type": "terminal",
        "id": TERMINAL_METHOD,
        "name": "Sign in, or enter a key",
        "description": f"Runs {NAME} auth in a terminal.",
        "args": ["--auth"],
    }
    return [stored, terminal] if client.auth and client.auth.terminal else [stored]


def _state(session: AcpSession) -> Wire:
    options = session.choices.config_options()
    return {"modes": session.choices.mode_state(), "configOptions": options}


def _listed(task: KnownTask) -> Wire:
    moment = datetime.fromtimestamp((task.updated or task.created) / 1000, UTC)
    return {
        "sessionId": task.task_id,
        "cwd": task.workspace,
        "title": task.title,
        "updatedAt": moment.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }


def _no_session(session_id: str) -> RpcError:
    return RpcError(NOT_FOUND, f"No such session: {session_id[:60]}. session/list shows them.")
