"""Watches the logs of tasks, and sends spans and metrics to the user's collector.

Logs are read every few seconds, and sent by a thread that nothing waits for: not a task, and not
the end of the program, even if a name server does not answer. Spans that cannot be sent are kept up
to a limit, then the oldest are dropped. The first failure is reported once.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct

from rookery import NAME, VERSION
from rookery.core.facts import Event
from rookery.core.hosts import HostPort
from rookery.core.settings_sections import TelemetrySettings
from rookery.platform.own_thread import in_own_thread
from rookery.telemetry.otlp import Json, Metrics, resource, traces
from rookery.telemetry.spans import SpanLink, TaskSpans, TraceSpan

if TYPE_CHECKING:
    import httpx2

INTERVAL = 5.0
REQUEST_SECONDS = 5.0
FLUSH_SECONDS = 2.0
MOST_SPANS = 1024
BATCH = 128


class WatchedLog(Protocol):
    @property
    def events(self) -> Sequence[Event]: ...

    ended: bool


class _WatchedTask(Struct):
    log: WatchedLog
    spans: TaskSpans
    seen: int

    def news(self) -> Iterator[TraceSpan]:
        """The spans that ended since the last time; all of them if the log has ended."""
        ended, events = self.log.ended, self.log.events
        while self.seen < len(events):
            self.seen += 1
            yield from self.spans.add(events[self.seen - 1])
        if ended:
            yield from self.spans.close()


class Unsent(Exception):
    """The collector did not take a report; the text says why. `again` if it may later."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


class TelemetryRecorder:
    """Sends what happens in the tasks of one host. `report` shows the user a sentence."""

    def __init__(self, settings: TelemetrySettings, report: Callable[[str], None]) -> None:
        assert settings.endpoint
        self._endpoint = settings.endpoint.rstrip("/")
        self._shown = self._endpoint.partition("?")[0]  # a query may hold a key
        self._headers = dict(_header(each) for each in settings.headers)
        self._content = settings.content
        self._report: Callable[[str], None] | None = report
        self._watched: list[_WatchedTask] = []
        self._links: dict[str, SpanLink] = {}
        self._waiting: deque[TraceSpan] = deque(maxlen=MOST_SPANS)
        self._metrics = Metrics(_now())
        self._resource = resource(str(uuid.uuid4()))

    def watch(self, task_id: str, log: WatchedLog) -> None:
        """Send what happens in this log from now on."""
        spans = TaskSpans(task_id=task_id, content=self._content, links=self._links)
        self._watched.append(_WatchedTask(log, spans, len(log.events)))

    async def run(self, interval: float = INTERVAL) -> None:
        while True:
            await anyio.sleep(interval)
            await self._send()

    async def aclose(self) -> None:
        """Send the rest, within a short time."""
        with anyio.move_on_after(FLUSH_SECONDS, shield=True) as limit:
            await self._send(last=True)
        if limit.cancelled_caught:
            self._fail(f"it did not answer within {FLUSH_SECONDS:g} s")

    async def _send(self, *, last: bool = False) -> None:
        if not self._collect(last=last):
            return
        sent: list[int] = []
        report = self._metrics.report(self._resource, _now())
        deliver = partial(self._deliver, list(self._waiting), report, sent.append)
        try:
            await in_own_thread(deliver)
        except Unsent as error:
            if not error.again:
                self._waiting.clear()
            self._fail(str(error))
        except Exception as error:  # no problem of a report may end a task
            self._waiting.clear()
            self._fail(str(error) or type(error).__name__)
        finally:
            for _ in range(min(sum(sent), len(self._waiting))):
                self._waiting.popleft()

    def _deliver(
        self, spans: Sequence[TraceSpan], report: Json, sent: Callable[[int], None]
    ) -> None:
        """Send all spans, then the metrics. `sent` gets the number of spans of each batch."""
        with self._client() as http:
            for at in range(0, len(spans), BATCH):
                batch = spans[at : at + BATCH]
                _post(http, "/v1/traces", traces(batch, self._resource))
                sent(len(batch))
            _post(http, "/v1/metrics", report)

    def _collect(self, *, last: bool) -> bool:
        """Whether there is something to send. Parents come before their sub-tasks."""
        for each in self._watched:
            for span in (*each.news(), *(each.spans.close() if last else ())):
                self._metrics.measure(span)
                self._waiting.append(span)
        self._watched = [each for each in self._watched if not each.log.ended]
        return bool(self._waiting)

    def _client(self) -> "httpx2.Client":
        import httpx2

        address = urlsplit(self._endpoint)
        return httpx2.Client(
            base_url=self._endpoint,
            headers={"user-agent": f"{NAME}/{VERSION}", **self._headers},
            timeout=REQUEST_SECONDS,
            trust_env=not HostPort(address.hostname or "", address.port or 0).is_loopback,
            follow_redirects=False,
        )

    def _fail(self, why: str) -> None:
        report, self._report = self._report, None
        if report:
            report(
                f"Telemetry could not be sent to {self._shown}: {why}. Your work is not "
                f"affected. Check the address, or run: {NAME} config unset telemetry.endpoint"
            )


def _post(http: "httpx2.Client", path: str, report: Json) -> None:
    import httpx2

    data, headers = msgspec.json.encode(report), {"content-type": "application/json"}
    try:
        with http.stream("POST", path, content=data, headers=headers) as response:
            status = response.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unsent(str(error) or type(error).__name__, again=True) from error
    if status >= 300:
        raise Unsent(f"it answered with status {status}", again=status in (429, 502, 503, 504))


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip(), value.strip()


def _now() -> int:
    return time.time_ns() // 1_000_000
