"""A model file on this machine, run by xllamacpp in a process of its own.

Opening it reads the file's header and starts nothing. The first request starts the process and
waits until the model is loaded; then it is a server of the chat completions wire like any other.
Every run has its own process, which ends with the run.
"""

import os
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import Process
from msgspec.structs import replace

from rookery.core.limits import KIB, MIB, Effort, FailureKind, Limits
from rookery.engine.ports.model import Chunk, ModelInfo, ModelRequest, SilenceChunk
from rookery.errors import ProviderError, SettingsError, StorageError
from rookery.platform.disk import private_folder, reason, regular_file
from rookery.platform.guarded_process import command_environment
from rookery.platform.user_folders import find_places
from rookery.providers.catalogue import find_model
from rookery.providers.exchange import Endpoint, Question, WireProvider
from rookery.providers.listener import Addressee
from rookery.providers.model_files import available_memory, context_for, find_file, header_of
from rookery.providers.openai import PATH, ChatReading, body, headers
from rookery.providers.provider_errors import plain
from rookery.providers.vendors import Vendor
from rookery.providers.wire_format import count, table

NAME = "local"
RUNTIME = "xllamacpp"
MISSING_RUNTIME = f"Running a model file needs the package {RUNTIME}: pip install {RUNTIME}"
LOG = "local-model.log"
LOG_BYTES = MIB
LOG_TAIL = 16 * KIB
TICK = 1.0
"""Seconds between two reports while a model is loaded."""
ENDING_SECONDS = 5.0
LONGEST_ADDRESS = 200

_SERVER = Path(__file__).with_name("local_server.py")
_ERROR_MARK = " E "


def open_local(
    given: str, described: Mapping[str, Any], limits: Limits, effort: Effort
) -> "LocalProvider":
    """Open a model file by its path, or by its name in a cache. Starts nothing yet."""
    file = find_file(given, os.environ)
    header = header_of(file)
    if find_spec(RUNTIME) is None:
        raise SettingsError(MISSING_RUNTIME)
    known = replace(find_model(NAME, file.stem, described), id=given)
    facts = {"parameters": header.parameters} if header.parameters else {}
    facts["window"] = context_for(header, file.stat().st_size, available_memory())
    facts |= described
    info = replace(known, **facts)
    info = replace(info, max_output=min(info.max_output, max(info.window // 4, 1)))
    return LocalProvider(file, info, limits, effort)


class LocalProvider:
    def __init__(self, file: Path, model: ModelInfo, limits: Limits, effort: Effort) -> None:
        self.model = model
        self._limits = limits
        self._effort: Effort = effort
        self._server = ModelProcess(file, model.window, limits.first_byte_seconds_local)
        self._wire: _LocalWire | None = None
        self._address = ""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        try:
            async with AsyncExitStack() as exchange:
                chunks = self._chunks(request, exchange)
                try:
                    yield chunks
                finally:
                    await chunks.aclose()
        except ProviderError:
            if self._wire is not None:
                self.model = self._wire.model  # it may have lost its tools
            raise

    async def _chunks(
        self, request: ModelRequest, exchange: AsyncExitStack
    ) -> AsyncGenerator[Chunk, None]:
        async for waiting in self._server.started():
            yield waiting
        wire = await self._connected()
        try:
            async for chunk in await exchange.enter_async_context(wire.stream(request)):
                yield chunk
        except ProviderError as error:
            if error.kind in (FailureKind.DROPPED, FailureKind.OFFLINE):
                await self._server.check()
            raise

    async def _connected(self) -> "_LocalWire":
        """The connection to the process, which has a new address if it was started again."""
        if self._wire is None or self._address != self._server.address:
            await self._disconnect()
            self._address = self._server.address
            to = Addressee(
                provider=NAME, model=self.model.id, host=self._address.removeprefix("http://")
            )
            key = headers(self._server.key)
            url = f"{self._address}/v1"
            endpoint = Endpoint(url, to=to, headers=key, limits=self._limits, local=True)
            self._wire = _LocalWire(endpoint, self.model, self._effort)
        return self._wire

    async def _disconnect(self) -> None:
        if self._wire is not None:
            await self._wire.aclose()
            self._wire = None

    async def aclose(self) -> None:
        await self._disconnect()
        await self._server.aclose()


class _LocalWire(WireProvider):
    def ask(self, request: ModelRequest) -> Question:
        payload = {**body(request, self.model, Vendor(), self.effort), "return_progress": True}
        return PATH, payload, LocalReading(self.model)


class LocalReading(ChatReading):
    """Chat completions, and how much of a long prompt was read."""

    def read_event(self, event: Any) -> Iterable[Chunk]:
        progress = table(table(event).get("prompt_progress"))
        if not progress:
            return super().read_event(event)
        whole, done = count(progress.get("total")), count(progress.get("processed"))
        seconds = (count(progress.get("time_ms")) or 0) / 1000
        if not whole or done is None or seconds < TICK:
            return ()
        share = min(done * 100 // whole, 100)
        return [SilenceChunk(seconds, f"Reading the prompt: {share} %")]


class ModelProcess:
    """The process that runs the file: started with the first request, and again if it died."""

    def __init__(self, file: Path, context: int, patience: float, tick: float = TICK) -> None:
        """`patience` and `tick` are the seconds until loading fails, and between two reports."""
        self.key = secrets.token_urlsafe(24)
        self.address = ""
        self._file = file
        self._context = context
        self._patience = patience
        self._tick = tick
        self._starting = anyio.Lock()
        self._process: Process | None = None
        self._printed = b""
        self._log = Path(os.devnull)
        self._log_start = 0

    async def started(self) -> AsyncGenerator[SilenceChunk, None]:
        """Wait until it answers. Raises `ProviderError`."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
            began = anyio.current_time()
            while not self.address:
                passed = anyio.current_time() - began
                if passed > self._patience:
                    await self.aclose()
                    raise self._error(f"was not loaded within {self._patience:g} seconds")
                if not await self._read_address():
                    yield SilenceChunk(passed + self._tick, f"Loading {self._file.name}")

    async def check(self) -> None:
        """Raises `ProviderError` if the process has died."""
        if self._process is not None:
            with anyio.move_on_after(TICK):
                await self._process.wait()
            if self._process.returncode is not None:
                raise self._error(self._cause())

    async def aclose(self) -> None:
        process, self._process = self._process, None
        self.address, self._printed = "", b""
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.kill()
            await process.aclose()

    async def _start(self) -> None:
        await self.aclose()
        log = self._open_log()
        order = {"path": str(self._file), "context": self._context, "key": self.key}
        try:
            with anyio.CancelScope(shield=True):
                self._process = await anyio.open_process(
                    [sys.executable, "-P", str(_SERVER), str(os.getpid())],
                    stderr=log,
                    cwd="/",
                    env=command_environment(os.environ, confined=False),
                )
                assert self._process.stdin is not None
                await self._process.stdin.send(msgspec.json.encode(order) + b"\n")
        except OSError as error:
            raise self._error(f"could not be started: {reason(error)}") from error
        except anyio.BrokenResourceError:
            pass  # it died at once, which is noticed when its address is read
        finally:
            os.close(log)

    async def _read_address(self) -> bool:
        """Read what has been printed; False if that took too long."""
        assert self._process is not None
        assert self._process.stdout is not None
        with anyio.move_on_after(self._tick) as late:
            try:
                self._printed += await self._process.stdout.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                with anyio.move_on_after(ENDING_SECONDS):
                    await self._process.wait()
                raise self._error(self._cause()) from None
        line, newline, _ = self._printed.partition(b"\n")
        if newline or len(line) > LONGEST_ADDRESS:
            self.address = line.decode("ascii", "replace")[:LONGEST_ADDRESS]
        return not late.cancelled_caught

    def _cause(self) -> str:
        status = self._process.returncode if self._process else None
        if status == -signal.SIGKILL:
            return (
                "needs more memory than is available. Use a smaller model, or set a smaller window "
                "for it in the settings"
            )
        if status is not None and status < 0:
            return f"crashed {RUNTIME} ({signal.Signals(-status).name})"
        return f"could not be loaded: {self._logged_reason() or 'the process ended'}"

    def _error(self, what: str) -> ProviderError:
        return ProviderError(
            f"{self._file.name} {what}. See {self._log}.", kind=FailureKind.REJECTED
        )

    def _open_log(self) -> int:
        """The log of this process; output goes nowhere if none can be written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            self._log = private_folder(find_places(os.environ).state) / LOG
            log = regular_file(self._log, flags)
            if os.fstat(log).st_size > LOG_BYTES:
                os.ftruncate(log, 0)
            self._log_start = os.fstat(log).st_size
        except (OSError, SettingsError, StorageError):
            self._log, self._log_start = Path(os.devnull), 0
            return os.open(os.devnull, os.O_WRONLY)
        return log

    def _logged_reason(self) -> str:
        """The first error in the log since the process was started."""
        with suppress(OSError), open(regular_file(self._log), "rb") as file:
            file.seek(self._log_start)
            for line in file.read(LOG_TAIL).decode("utf-8", "replace").splitlines():
                if _ERROR_MARK in line:
                    return plain(line.partition(_ERROR_MARK)[2].partition(": ")[2], 200)
        return ""
