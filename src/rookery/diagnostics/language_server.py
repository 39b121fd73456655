"""One running language server: the files it knows, and the problems it reports of them.

What a server reports counts for the file as it was shown last. It may report several times, so its
answer is complete when it has been quiet for a moment.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from msgspec import Struct

from rookery import NAME, VERSION
from rookery.core.text.terminal_text import harmless
from rookery.diagnostics.languages import FoundServer
from rookery.diagnostics.lsp_wire import LspConnection, ServerGone, framed
from rookery.diagnostics.problems import Diagnostic, read_problems
from rookery.errors import ToolError
from rookery.platform.piped_process import PipedProcess

START_SECONDS = 60.0
ANSWER_SECONDS = 30.0
"""How long to wait in the background for what a server says about a file."""
MOST_UNANSWERED = 2
LEAST_PATIENCE = 1.0
QUIET_SECONDS = 0.2
LONGEST_WORDS = 200
MOST_OPEN = 40
"""Files that a server has open; the oldest is closed for another."""
MOST_FILES = 2_000
"""Files whose problems are kept."""
_TYPES = {"created": 1, "changed": 2, "deleted": 3}

Start = Callable[[FoundServer], Awaitable[PipedProcess]]


class _OpenFile(Struct):
    version: int
    text: str
    stamp: tuple[int, int]
    """Time and size of the file on disk when the text was shown."""


class LanguageServer:
    def __init__(self, found: FoundServer, workspace: Path, start: Start) -> None:
        self.found = found
        self._workspace = workspace
        self._start = start
        self._ready = anyio.Event()
        self._connection: LspConnection | None = None
        self._news = anyio.Event()
        self._open: dict[str, _OpenFile] = {}
        self._reports: dict[str, int] = {}
        """How often the server reported each file."""
        self._versions: dict[str, int | None] = {}
        """The version of each file that was reported last, if the server says so."""
        self.problems: dict[str, tuple[Diagnostic, ...]] = {}
        """What was reported last of each file."""
        self.failure = ""
        self._slowest = 0.0
        self._unanswered = 0
        self._pulls = False
        """Whether the server reports problems when asked."""

    async def run(self) -> None:
        """Start the server and listen until it ends. `failure` says why it did."""
        try:
            process = await self._start(self.found)
        except (OSError, ValueError, ToolError) as error:
            self._stop(f"It could not be started ({error}).")
            return
        connection = LspConnection(process, answer=self._answer, notified=self._notified)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(process.drain)
                group.start_soon(self._introduce, connection)
                await connection.listen()
                group.cancel_scope.cancel()
            self._stop(f"It ended.{_stderr_line(process)}")
        except* ServerGone as gone:
            self._stop(str(gone.exceptions[0]))
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)

    def _stop(self, why: str) -> None:
        self.failure = why
        self._ready.set()
        self._tell()

    async def _introduce(self, connection: LspConnection) -> None:
        root = self.found.root.as_uri()
        params = {
            "processId": None,  # in a sandbox it would name another process, or none
            "clientInfo": {"name": NAME, "version": VERSION},
            "rootUri": root,
            "rootPath": str(self.found.root),
            "workspaceFolders": [{"uri": root, "name": self.found.root.name}],
            "initializationOptions": self.found.row.options,
            "capabilities": _CAPABILITIES,
        }
        with suppress(ServerGone), anyio.move_on_after(START_SECONDS):  # `listen` ends then, too
            about = await connection.request("initialize", params)
            match about:
                case {"capabilities": {"diagnosticProvider": dict()}}:
                    self._pulls = True
            await connection.notify("initialized", {})
            await connection.notify(
                "workspace/didChangeConfiguration", {"settings": self._settings()}
            )
            self._connection = connection
            self._ready.set()
        if self._connection is None and not connection.ended:
            raise ServerGone(f"It did not start within {START_SECONDS:g} s.")

    async def ready(self) -> None:
        """Wait until the server can be used. Raises `ServerGone`."""
        await self._ready.wait()
        if self.failure:
            raise ServerGone(self.failure)

    def shows(self, path: str, text: str) -> bool:
        """Whether the server knows this text of the file."""
        known = self._open.get(path)
        return known is not None and known.text == text and path in self._reports

    async def show(self, path: str, text: str, *, saved: bool = True) -> bool:
        """Show the file to the server and wait for what it reports. Returns whether it did;
        `saved` if the text is on disk. Raises `ServerGone`."""
        before = self._reports.get(path, 0)
        version = await self._send_text(path, text, saved=saved)
        if self._pulls:
            return await self._ask_about(path)

        def answered() -> bool:
            told = self._versions.get(path)
            return self._reports.get(path, 0) > before and told in (None, version)

        started, patience = anyio.current_time(), self._patience(path)
        with anyio.move_on_after(patience):
            await self._until(answered)
            if before:
                self._slowest = max(self._slowest, anyio.current_time() - started)
            await self._until_quiet()
        self._unanswered = 0 if answered() else self._unanswered + 1
        return answered() or patience < ANSWER_SECONDS

    async def _ask_about(self, path: str) -> bool:
        """Ask for the problems of a file and of the others that are open."""
        assert self._connection
        with anyio.move_on_after(ANSWER_SECONDS) as time:
            for each in (path, *(other for other in self._open if other != path)):
                found = await self._connection.request(_PULL, {"textDocument": self._id(each)})
                match found:
                    case {"items": list(reported)}:
                        self._take_report(each, reported, self._open[each].version)
        return not time.cancelled_caught

    def _patience(self, path: str) -> float:
        """Servers that name no version report only what changed, so their silence is an answer.
        How long that takes is learnt from their other answers. One that does not answer is not
        waited for."""
        if self._unanswered >= MOST_UNANSWERED:
            return LEAST_PATIENCE
        if path not in self._reports or self._versions[path] is not None:
            return ANSWER_SECONDS
        return min(max(LEAST_PATIENCE, 3 * self._slowest), ANSWER_SECONDS)

    async def forget(self, path: str) -> None:
        """Tell the server that the file was deleted. Raises `ServerGone`."""
        await self._ready.wait()
        if self._open.pop(path, None):
            await self._notify("textDocument/didClose", {"textDocument": self._id(path)})
        await self._announce(path, "deleted")
        self.problems.pop(path, None)

    async def catch_up(self, but: str) -> None:
        """Show the open files again that changed on disk since, `but` for one. Raises
        `ServerGone`."""
        for path, known in list(self._open.items()):
            if path != but and known.stamp != (stamp := _stamp(self._workspace / path)):
                try:
                    text = (self._workspace / path).read_text("utf-8")
                except (OSError, ValueError):
                    await self.forget(path)
                    continue
                known.stamp = stamp
                if text != known.text:
                    await self._send_text(path, text)

    async def _send_text(self, path: str, text: str, *, saved: bool = True) -> int:
        """Returns the version of the file that the server gets."""
        known = self._open.pop(path, None)
        version = known.version + 1 if known else 1
        self._open[path] = _OpenFile(version, text, _stamp(self._workspace / path))
        if known is None:
            await self._make_room()
            if path not in self._reports:
                await self._announce(path, "created")
            language = self.found.row.files[Path(path).suffix]
            document = self._id(path) | {"languageId": language, "version": version, "text": text}
            await self._notify("textDocument/didOpen", {"textDocument": document})
        else:
            changed = {"textDocument": self._id(path) | {"version": version}}
            await self._notify(
                "textDocument/didChange", changed | {"contentChanges": [{"text": text}]}
            )
            await self._announce(path, "changed")
        if saved:
            await self._notify("textDocument/didSave", {"textDocument": self._id(path)})
        return version

    async def _make_room(self) -> None:
        if len(self._open) > MOST_OPEN:
            oldest = next(iter(self._open))
            del self._open[oldest]
            await self._notify("textDocument/didClose", {"textDocument": self._id(oldest)})

    async def _announce(self, path: str, kind: str) -> None:
        change = self._id(path) | {"type": _TYPES[kind]}
        await self._notify("workspace/didChangeWatchedFiles", {"changes": [change]})

    async def _notify(self, method: str, params: Any) -> None:
        if self._connection is None:
            raise ServerGone(self.failure)
        await self._connection.notify(method, params)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self.failure:
                raise ServerGone(self.failure)
            await self._news.wait()

    async def _until_quiet(self) -> None:
        while True:
            with anyio.move_on_after(QUIET_SECONDS) as quiet:
                await self._news.wait()
            if quiet.cancelled_caught:
                return

    def _id(self, path: str) -> dict[str, Any]:
        return {"uri": (self._workspace / path).as_uri()}

    def _notified(self, method: str, params: Any) -> None:
        match params:
            case {"uri": str(uri), "diagnostics": list(reported)} if method == _PUBLISHED:
                if path := self._path_of(uri):
                    self._take_report(path, reported, params.get("version"))

    def _take_report(self, path: str, reported: list[Any], version: Any) -> None:
        known = self._open.get(path)
        if known is None and len(self.problems) >= MOST_FILES:
            return
        self.problems[path] = read_problems(path, reported, known.text if known else None)
        self._reports[path] = self._reports.get(path, 0) + 1
        self._versions[path] = version if isinstance(version, int) else None
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    def _path_of(self, uri: str) -> str:
        """The path in the workspace; empty if it is elsewhere, or could not be shown."""
        parts = urlsplit(uri)
        path = Path(unquote(parts.path))
        if parts.scheme != "file" or not path.is_relative_to(self._workspace):
            return ""
        name = path.relative_to(self._workspace).as_posix()
        return name if name.isprintable() else ""

    def _answer(self, method: str, params: Any) -> Any:
        match method:
            case "workspace/configuration":
                items = params.get("items") if isinstance(params, Mapping) else None
                return [self._settings_of(each) for each in items or ()]
            case "workspace/workspaceFolders":
                return [{"uri": self.found.root.as_uri(), "name": self.found.root.name}]
            case "workspace/applyEdit":
                return {"applied": False, "failureReason": "Edits are not applied."}
            case (
                "client/registerCapability"
                | "client/unregisterCapability"
                | "window/workDoneProgress/create"
                | "window/showMessageRequest"
                | "workspace/diagnostic/refresh"
            ):
                return None
        raise LookupError(method)

    def _settings_of(self, item: Any) -> Any:
        value: Any = self._settings()
        section = item.get("section") if isinstance(item, Mapping) else None
        for name in str(section or "").split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def _settings(self) -> dict[str, Any]:
        """Settings of servers, below those of the project's own files."""
        if self.found.row.name != "python":
            return {}
        analysis = {"diagnosticMode": "openFilesOnly", "typeCheckingMode": "standard"}
        python = _environment_of(self.found.root, self._workspace)
        return {
            "python": {"analysis": analysis, **({"pythonPath": python} if python else {})},
            "basedpyright": {"analysis": analysis},
        }


_PUBLISHED = "textDocument/publishDiagnostics"
_PULL = "textDocument/diagnostic"
_CAPABILITIES = {
    "textDocument": {
        "publishDiagnostics": {"versionSupport": True},
        "synchronization": {"didSave": True},
    },
    "workspace": {"configuration": True, "workspaceFolders": True},
    "general": {"positionEncodings": ["utf-16"]},
}


def _environment_of(root: Path, workspace: Path) -> str:
    """The Python of the project's environment; empty if it has none."""
    for folder in (root, workspace):
        for name in (".venv", "venv"):
            if os.access(folder / name / "bin" / "python", os.X_OK):
                return str(folder / name / "bin" / "python")
    return ""


def _stamp(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _stderr_line(process: PipedProcess) -> str:
    """The first line of its standard error that speaks of an error, or the last one."""
    said = process.tail.decode("utf-8", "replace").split("\n")
    lines = [line.strip() for line in said if line.strip()]
    told = [line for line in lines if "error" in line.lower()] or lines[-1:]
    return f" It wrote: {harmless(told[0])[:LONGEST_WORDS]}" if told else ""


async def _end(process: PipedProcess) -> None:
    with suppress(OSError), anyio.move_on_after(1):
        await process.write(framed({"id": 0, "method": "shutdown"}))
        await process.write(framed({"method": "exit"}))
    await process.end()
    process.close()
