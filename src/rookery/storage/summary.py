"""The list entry and the searchable text of a task, folded event by event."""

import json
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rookery.core.blocks import Text
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Event,
    Fact,
    ModeSwitched,
    QueueEdited,
    RequestStarted,
    Rewound,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.folds.run_tallies import added, paid_in
from rookery.core.instructions import without_piped
from rookery.core.limits import KIB
from rookery.core.stored_tasks import ModelUsage, StoredStatus, TaskSummary

TITLE_LENGTH = 200
SNIPPET_LENGTH = 160
RESULT_LENGTH = 8 * KIB
"""Searchable characters of a tool's result."""


_OFFERED = (StoredStatus.COMPLETED, StoredStatus.WAITING)

QUARTER = 15 * 60_000
"""Days begin at a full quarter of an hour in every time zone."""


def see(summary: TaskSummary, event: Event) -> TaskSummary:
    """The summary after one more event. Rewound requests still count as paid."""
    return replace(_after(summary, event), updated=event.ts)


def words_of(fact: Fact) -> str:
    """The searchable text of a fact."""
    match fact:
        case TaskOpened(text=text, title=title) if title and title not in text:
            return f"{title}\n{text}"
        case TaskOpened(text=text) | UserSpoke(text=text) | Answered(text=text):
            return text
        case QueueEdited(text=str() as text):
            return text
        case Asked(title=title, text=text):
            return "\n".join(filter(None, (title, readable(text))))
        case AssistantSpoke(blocks=blocks):
            return "\n".join(block.text for block in blocks if isinstance(block, Text))
        case ToolStarted(title=title, command=command):
            return title if command in title else f"{title}\n{command}"
        case ToolFinished(text=text):
            return text[:RESULT_LENGTH]
        case CompletionOffered(result=result, spoken=False):
            return result
        case _:
            return ""


def readable(text: str) -> str:
    """The text of a question. Some are stored as JSON, of which only the written text is kept."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return "\n".join(_strings(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, each in value.items():
                if name not in _NOT_SAID:
                    yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
        case _:
            pass


_NOT_SAID = ("tool", "type", "status", "mode")
"""Fields whose values are our own names."""


def _title(opened: TaskOpened) -> str:
    return " ".join((opened.title or without_piped(opened.text)).split())


def _after(summary: TaskSummary, event: Event) -> TaskSummary:
    match event.fact:
        case TaskOpened(workspace=workspace, parent=parent, mode=mode) as opened:
            return replace(
                summary,
                title=_title(opened)[:TITLE_LENGTH],
                workspace=workspace,
                parent=parent,
                mode=mode,
                created=event.ts,
            )
        case ModeSwitched(mode=mode):
            return replace(summary, mode=mode)
        case CompletionOffered(plan=plan):
            offered = StoredStatus.WAITING if plan else StoredStatus.COMPLETED
            return replace(summary, status=offered)
        case RequestStarted(model=model):
            return replace(summary, status=StoredStatus.OPEN, model=model)
        case Rewound():
            return replace(summary, status=StoredStatus.OPEN)
        case TaskFailed():
            return replace(summary, status=StoredStatus.FAILED)
        case TaskClosed() if summary.status not in _OFFERED:
            return replace(summary, status=StoredStatus.CLOSED)
        case TaskReopened() if summary.status not in _OFFERED:
            return replace(summary, status=StoredStatus.OPEN)
        case fact:
            usage = paid_in(fact)
            return _charge(summary, usage, event.ts) if usage else summary


def _charge(summary: TaskSummary, usage: Usage, ts: int) -> TaskSummary:
    before = Usage(tokens_in=summary.tokens_in, tokens_out=summary.tokens_out, cost=summary.cost)
    used = added(before, usage)
    return replace(
        summary,
        tokens_in=used.tokens_in,
        tokens_out=used.tokens_out,
        cost=used.cost,
        spending=_spent(summary.spending, ModelUsage(ts=ts, model=summary.model, usage=usage)),
    )


def _spent(before: tuple[ModelUsage, ...], now: ModelUsage) -> tuple[ModelUsage, ...]:
    if now.usage == Usage():
        return before
    now = replace(now, ts=now.ts - now.ts % QUARTER)
    if before and (before[-1].ts, before[-1].model) == (now.ts, now.model):
        return (*before[:-1], replace(now, usage=added(before[-1].usage, now.usage)))
    return (*before, now)


def snippet(text: str, terms: Sequence[str]) -> str:
    """The text around the first matching term, on one line."""
    line = " ".join(text.split())
    folded = line.casefold()
    places = [place for term in terms if (place := folded.find(term.casefold())) >= 0]
    start = max(0, min(places, default=0) - SNIPPET_LENGTH // 3)
    end = start + SNIPPET_LENGTH
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
