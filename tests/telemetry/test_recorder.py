"""Reports are sent in batches, kept while the collector is away, and bounded."""

import json
import threading
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from rookery.core.facts import (
    AssistantSpoke,
    Event,
    Fact,
    RequestStarted,
    TaskOpened,
)
from rookery.core.settings_sections import TelemetrySettings
from rookery.telemetry.recorder import BATCH, MOST_SPANS, TelemetryRecorder
from support.sample_logs import log
from support.web_site import Reply, Site, web_site

pytestmark = pytest.mark.anyio


class GrowingLog:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ended = False

    def grow(self, *facts: Fact) -> None:
        self.events = log(*(event.fact for event in self.events), *facts)


@pytest.fixture
def collector() -> Iterator[Site]:
    with web_site() as site:
        site.pages["/v1/traces"] = site.pages["/v1/metrics"] = Reply(b"{}")
        yield site


def requests(count: int) -> Iterator[Fact]:
    for number in range(count):
        yield RequestStarted(request_id=f"r{number}", model="m \ud83d")
        yield AssistantSpoke(request_id=f"r{number}", blocks=())


def batches(collector: Site) -> list[int]:
    sent = (json.loads(each.body) for each in collector.requests if each.path == "/v1/traces")
    return [len(each["resourceSpans"][0]["scopeSpans"][0]["spans"]) for each in sent]


def recorder_for(collector: Site, said: list[str]) -> tuple[TelemetryRecorder, GrowingLog]:
    recorder = TelemetryRecorder(TelemetrySettings(endpoint=f"{collector.origin}/"), said.append)
    watched = GrowingLog()
    watched.grow(TaskOpened(text="do it"))
    recorder.watch("t", watched)
    return recorder, watched


async def test_spans_wait_for_a_collector_that_is_busy(collector: Site):
    said: list[str] = []
    recorder, watched = recorder_for(collector, said)
    collector.pages["/v1/traces"] = Reply(status=503)
    watched.grow(*requests(3))
    await recorder.aclose()
    await recorder.aclose()
    collector.pages["/v1/traces"] = Reply(b"{}")
    await recorder.aclose()
    assert batches(collector) == [4, 4, 4]
    assert len(said) == 1
    assert "it answered with status 503" in said[0]


async def test_many_spans_go_in_batches_and_the_oldest_are_dropped(collector: Site):
    said: list[str] = []
    recorder, watched = recorder_for(collector, said)
    watched.grow(*requests(MOST_SPANS + 50))
    await recorder.aclose()
    assert batches(collector) == [BATCH] * (MOST_SPANS // BATCH)
    assert said == []


async def test_earlier_events_of_a_reopened_session_are_not_sent(collector: Site):
    recorder = TelemetryRecorder(TelemetrySettings(endpoint=collector.origin), lambda _: None)
    watched = GrowingLog()
    watched.grow(TaskOpened(text="do it"), *requests(5))
    recorder.watch("t", watched)
    await recorder.aclose()
    assert collector.requests == []


async def test_an_unusable_header_is_reported_and_nothing_fails(collector: Site):
    said: list[str] = []
    settings = TelemetrySettings(endpoint=collector.origin, headers=("bad name\n: é\ud800",))
    recorder = TelemetryRecorder(settings, said.append)
    watched = GrowingLog()
    recorder.watch("t", watched)
    watched.grow(TaskOpened(text="do it"), *requests(1))
    await recorder.aclose()
    assert len(said) == 1
    assert collector.requests == []


async def test_spans_are_sent_while_the_task_works(collector: Site):
    recorder, watched = recorder_for(collector, [])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(recorder.run, 0.01)
            for count in (1, 2):
                watched.grow(*requests(count))
                while len(batches(collector)) < count:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert sum(batches(collector)) == 3


async def test_the_end_of_the_program_waits_for_no_report(collector: Site):
    """A lookup of a name can take long and cannot be cancelled, so its thread must be a daemon."""
    held = {thread for thread in threading.enumerate() if not thread.daemon}
    recorder, watched = recorder_for(collector, [])
    watched.grow(*requests(1))
    await recorder.aclose()
    assert batches(collector) == [2]
    assert {thread for thread in threading.enumerate() if not thread.daemon} == held


async def test_the_query_of_an_address_is_not_shown():
    said: list[str] = []
    settings = TelemetrySettings(endpoint="http://127.0.0.1:9/otlp?key=hunter2")
    recorder, watched = TelemetryRecorder(settings, said.append), GrowingLog()
    recorder.watch("t", watched)
    watched.grow(TaskOpened(text="do it"), *requests(1))
    await recorder.aclose()
    assert "could not be sent to http://127.0.0.1:9/otlp: " in said[0]
    assert "hunter2" not in said[0]
