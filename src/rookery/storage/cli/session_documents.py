"""A session and its sub-tasks as one document: to be read, or for a program."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from rookery import NAME
from rookery.manager.dependencies import Form
from rookery.plain.transcript_text import as_heading, as_html, as_markdown, as_page, passages
from rookery.protocol.codec import event_to_json
from rookery.storage.cli.list import title
from rookery.storage.cli.session_argument import family_of, view_of
from rookery.storage.cli.show import header
from rookery.storage.sessions import TaskStore
from rookery.storage.summary import TaskSummary

Family: TypeAlias = Sequence[tuple[int, TaskSummary]]


def session_document(store: TaskStore, task_id: str, form: Form) -> str:
    family = family_of(store.list(), task_id)
    match form:
        case "markdown":
            return "\n\n".join(_markdown(store, family))
        case "json":
            return json.dumps(
                {"tool": NAME, "sessions": [_object(store, one) for _, one in family]}
            )
        case "html":
            return "".join(as_page(title(family[0][1].title), _html(store, family)))


def _object(store: TaskStore, one: TaskSummary) -> dict[str, Any]:
    return {
        "id": one.id,
        "task": one.title,
        "workspace": one.workspace,
        "parent": one.parent,
        "mode": one.mode,
        "status": one.status,
        "created": one.created,
        "updated": one.updated,
        "tokensIn": one.tokens_in,
        "tokensOut": one.tokens_out,
        "cost": one.cost,
        "facts": [json.loads(event_to_json(event)) for event in store.read(one.id)],
    }


def _markdown(store: TaskStore, family: Family) -> Iterator[str]:
    for depth, one in family:
        view = view_of(list(store.read(one.id)))
        yield f"{'#' if depth == 0 else '---' + chr(10) * 2 + '#'} {_heading(one, depth)}"
        yield f"*{header(one, view)}*"
        yield from as_markdown(passages(view.messages))


def _html(store: TaskStore, family: Family) -> Iterator[str]:
    for depth, one in family:
        view = view_of(list(store.read(one.id)))
        yield as_heading(_heading(one, depth), header(one, view), level=1 if depth == 0 else 2)
        yield from as_html(passages(view.messages))


def _heading(one: TaskSummary, depth: int) -> str:
    return title(one.title) if depth == 0 else f"Sub-task: {title(one.title)}"
