"""Traces and metrics reach a collector if the user configured one, and never a task's way."""

import json
import socket
from collections.abc import Iterator

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from llm_server import LlmServer, finish, usage
from support.model_words import LOOK
from support.terminal_session import Installed, at
from support.web_site import Reply, Site, web_site

ENDPOINT = "ROOKERY_TELEMETRY_ENDPOINT"
PROMPT = "look at my private folder"


@pytest.fixture
def collector() -> Iterator[Site]:
    with web_site() as site:
        for path in ("/v1/traces", "/v1/metrics"):
            site.pages[path] = Reply(b"{}", "application/json")
        yield site


@pytest.fixture
def model() -> Iterator[LlmServer]:
    with LlmServer([LOOK, usage(tokens_in=900, tokens_out=9)], [finish("Done.")]) as server:
        yield server


def spans(collector: Site) -> list[Span]:
    sent = (each for each in collector.requests if each.path == "/v1/traces")
    parsed = (json_format.Parse(each.body, ExportTraceServiceRequest()) for each in sent)
    return [
        span
        for report in parsed
        for resource in report.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes(span: Span) -> dict[str, object]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_collector_gets_spans_and_metrics_without_what_was_said(
    rookery: Installed, model: LlmServer, collector: Site
):
    given = {ENDPOINT: collector.origin, "ROOKERY_TELEMETRY_HEADERS": "authorization: Bearer abc"}
    rookery.environ |= given
    done = rookery.run("-p", *at(model), PROMPT)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    found = {each.name: each for each in spans(collector)}
    turn, tool = found["invoke_agent rookery"], found["execute_tool list_files"]
    assert tool.parent_span_id == turn.span_id
    assert tool.trace_id == turn.trace_id
    chats = [each for each in spans(collector) if each.name.startswith("chat ")]
    assert attributes(chats[0])["gen_ai.usage.input_tokens"] == 900
    assert all(each.end_time_unix_nano >= each.start_time_unix_nano for each in spans(collector))
    assert all(each.headers["authorization"] == "Bearer abc" for each in collector.requests)
    bodies = b"".join(each.body for each in collector.requests)
    assert PROMPT.encode() not in bodies
    assert b"Done." not in bodies
    (last,) = [each.body for each in collector.requests if each.path == "/v1/metrics"][-1:]
    report = json_format.Parse(last, ExportMetricsServiceRequest())
    names = {each.name for each in report.resource_metrics[0].scope_metrics[0].metrics}
    assert names == {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"}


def test_content_is_sent_only_with_its_own_setting(
    rookery: Installed, model: LlmServer, collector: Site
):
    rookery.environ |= {ENDPOINT: collector.origin, "ROOKERY_TELEMETRY_CONTENT": "true"}
    rookery.run("-p", *at(model), PROMPT)
    (turn,) = [each for each in spans(collector) if each.name == "invoke_agent rookery"]
    said = json.loads(str(attributes(turn)["gen_ai.input.messages"]))
    assert said == [{"role": "user", "parts": [{"type": "text", "content": PROMPT}]}]


def test_nothing_is_sent_for_a_project_or_a_variable_of_other_programs(
    rookery: Installed, model: LlmServer, collector: Site
):
    project = rookery.workspace / ".rookery"
    project.mkdir()
    text = f'[telemetry]\nendpoint = "{collector.origin}"\ncontent = true\n'
    (project / "settings.toml").write_text(text, encoding="utf-8")
    rookery.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.origin
    done = rookery.run("-p", *at(model), PROMPT)
    assert "telemetry.endpoint cannot be set by a project" in done.stderr
    assert collector.requests == []


@pytest.mark.parametrize("broken", ["closed", "silent", "refusing", "redirecting"])
def test_a_broken_collector_costs_one_sentence(
    rookery: Installed, model: LlmServer, collector: Site, broken: str
):
    elsewhere = (("location", f"{collector.origin}/elsewhere"),)
    moved = broken == "redirecting"
    collector.pages["/v1/traces"] = Reply(
        b"no", status=307 if moved else 403, headers=elsewhere if moved else ()
    )
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = {
            "closed": closed.getsockname()[1],
            "silent": silent.getsockname()[1],
            "refusing": collector.port,
            "redirecting": collector.port,
        }
        rookery.environ[ENDPOINT] = f"http://127.0.0.1:{ports[broken]}"
        done = rookery.run("-p", *at(model), PROMPT)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert done.stderr.count("Telemetry could not be sent to") == 1
    assert "/elsewhere" not in [each.path for each in collector.requests]
