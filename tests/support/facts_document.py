"""Writes docs/facts-and-commands.md from the code: `make pages`."""

import ast
import inspect
from pathlib import Path
from typing import Any, get_args

from rookery.core import facts
from rookery.core.commands import Command
from rookery.core.facts import Fact, Unrecognised
from rookery.protocol.codec import kind_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "facts-and-commands.md"

PREFACE = """\
# Facts and commands

Written from the code by `make pages`; a test compares the two.

On the wire every value is a JSON object whose `kind` is the name below. An event is its fact's
object with `seq`, `sub` and `ts` in front. A field with a default may be left out.
"""

SENTENCES = {
    "task_closed": "The task ended. It can be reopened.",
    "step_cancelled": "The user stopped the current step.",
    "answered": "A question was answered, by the user or by a rule.",
    "request_started": "A request was sent to the model; `attempt` counts the tries.",
    "text_streamed": "A piece of the model's text arrived.",
    "thinking_streamed": "A piece of the model's reasoning arrived.",
    "request_failed": "A request ended without an answer; `error` says what is tried next.",
    "output_streamed": "A piece of a running call's output arrived.",
    "tool_finished": "A call ended, with the result that the model gets.",
    "todos_changed": "The checklist was replaced by this one.",
    "mode_switched": "The mode of the task changed.",
    "todo": "One line of the checklist.",
    "reopen_task": "Continue a task of an earlier process.",
    "close_task": "End the task, even while it works.",
    "switch_mode": "Change the mode.",
    "delete_task": "Remove the task and all its files.",
}
"""Sentences for classes that have no docstring."""


def document() -> str:
    kinds = [cls for cls in get_args(Fact) if cls is not Unrecognised]
    parts = [
        PREFACE,
        "## Facts that last\n",
        "They are numbered without gaps and kept in the journal.\n",
        *_entries([cls for cls in kinds if cls.lasting]),
        "## News\n",
        "Shown while it is fresh, never kept, and always superseded by a fact that lasts.\n",
        *_entries([cls for cls in kinds if not cls.lasting]),
        "## Commands\n",
        "A command is refused at once, or leads to facts in the task's log.\n",
        *_entries(list(get_args(Command))),
        "## Values inside facts\n",
        *_entries([facts.Usage, facts.Change, facts.Todo]),
    ]
    return "\n".join(parts)


def _entries(classes: list[type[Any]]) -> list[str]:
    return [_entry(kind_of(cls), _node(cls)) for cls in classes]


def _node(cls: type[Any]) -> ast.ClassDef:
    (node,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(node, ast.ClassDef)
    return node


def _entry(kind: str, node: ast.ClassDef) -> str:
    fields = [
        statement
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement)
    ]
    rows = [_row(field) for field in fields]
    table = ["| field | type | default |", "| --- | --- | --- |", *rows, ""] if rows else []
    return "\n".join([f"### `{kind}`\n", f"{sentence(kind, node)}\n", *table])


def sentence(kind: str, node: ast.ClassDef) -> str:
    said = ast.get_docstring(node)
    return " ".join(said.split()) if said else SENTENCES[kind]


def _row(field: ast.AnnAssign) -> str:
    default = f"`{ast.unparse(field.value)}`" if field.value else ""
    kind = ast.unparse(field.annotation).replace("|", "\\|")
    return f"| `{ast.unparse(field.target)}` | `{kind}` | {default} |"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
