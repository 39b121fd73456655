"""Spans and metrics as OTLP JSON.

Numbers of 64 bits are strings and ids are hexadecimal, as the protocol wants it. Metrics are
cumulative: each report has the sums since the process started.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rookery import NAME, VERSION
from rookery.core.text.characters import whole
from rookery.telemetry.spans import Attributes, TraceSpan

Json: TypeAlias = dict[str, Any]
TOKEN_BOUNDS = tuple(float(4**power) for power in range(14))
SECOND_BOUNDS = tuple(0.01 * 2**power for power in range(14))
_CUMULATIVE = 2
_FAILED = 2
_OF_METRICS = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")


class Histogram(Struct):
    """The measurements of one kind, for one set of attributes."""

    attributes: Attributes
    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    """Token usage and duration of requests, since `start` (milliseconds)."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._known: dict[tuple[Any, ...], Histogram] = {}

    def measure(self, span: TraceSpan) -> None:
        if span.attributes["gen_ai.operation.name"] != "chat":
            return
        about = {name: span.attributes[name] for name in _OF_METRICS}
        for kind in ("input", "output"):
            if count := span.attributes.get(f"gen_ai.usage.{kind}_tokens"):
                typed = {**about, "gen_ai.token.type": kind}
                self._add("gen_ai.client.token.usage", typed, TOKEN_BOUNDS, count)
        failed = {"error.type": span.error} if span.error else {}
        seconds = (span.end - span.start) / 1000
        self._add("gen_ai.client.operation.duration", about | failed, SECOND_BOUNDS, seconds)

    def _add(
        self, name: str, attributes: Attributes, bounds: tuple[float, ...], value: float
    ) -> None:
        key = (name, *attributes.items())
        if key not in self._known:
            self._known[key] = Histogram(attributes, bounds, [0] * (len(bounds) + 1))
        self._known[key].add(value)

    def report(self, resource: Json, now: int) -> Json:
        metrics: dict[str, list[Json]] = {}
        for (name, *_), each in self._known.items():
            metrics.setdefault(name, []).append(self._point(each, now))
        units = {"gen_ai.client.token.usage": "{token}", "gen_ai.client.operation.duration": "s"}
        written = [
            {
                "name": name,
                "unit": units[name],
                "histogram": {"aggregationTemporality": _CUMULATIVE, "dataPoints": points},
            }
            for name, points in metrics.items()
        ]
        scoped = {"scope": _scope(), "metrics": written}
        return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scoped]}]}

    def _point(self, each: Histogram, now: int) -> Json:
        return {
            "attributes": _attributes(each.attributes),
            "startTimeUnixNano": _nanos(self._start),
            "timeUnixNano": _nanos(now),
            "count": str(sum(each.counts)),
            "sum": each.total,
            "bucketCounts": [str(count) for count in each.counts],
            "explicitBounds": each.bounds,
        }


def resource(instance: str) -> Json:
    """Who sends: this program, and this process of it."""
    about = {
        "service.name": NAME,
        "service.version": VERSION,
        "service.instance.id": instance,
    }
    return {"attributes": _attributes(about)}


def traces(spans: Iterable[TraceSpan], resource: Json) -> Json:
    scoped = {"scope": _scope(), "spans": [_span(each) for each in spans]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}


def _scope() -> Json:
    return {"name": NAME, "version": VERSION}


def _span(span: TraceSpan) -> Json:
    return {
        "traceId": span.trace,
        "spanId": span.id,
        "parentSpanId": span.parent,
        "name": whole(span.name),
        "kind": span.kind,
        "startTimeUnixNano": _nanos(span.start),
        "endTimeUnixNano": _nanos(span.end),
        "attributes": _attributes(span.attributes),
        "status": {"code": _FAILED} if span.error else {},
    }


def _attributes(attributes: Mapping[str, Any]) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Any) -> Json:
    match value:
        case int():
            return {"intValue": str(value)}
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case _:
            return {"stringValue": whole(str(value))}


def _nanos(milliseconds: int) -> str:
    return str(milliseconds * 1_000_000)
