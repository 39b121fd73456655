"""Replace the checklist of the task."""

import hashlib
import re
from collections import Counter
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import to_builtins

from rookery.core.facts import Todo, TodosChanged
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments

MOST_ITEMS = 1000

_ITEM = re.compile(r"\s*(?:[-*]\s+)?\[([ xX~-])\]\s+(\S.*)")
_STATUS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    " ": "pending",
    "-": "in_progress",
    "~": "in_progress",
    "x": "completed",
    "X": "completed",
}


class UpdateTodoListArgs(msgspec.Struct, forbid_unknown_fields=True):
    todos: Annotated[
        str,
        msgspec.Meta(
            description="The whole list, a line for each step: [ ] to do, [-] doing, [x] done."
        ),
    ]


class UpdateTodoList:
    name: ClassVar[str] = "update_todo_list"
    description: ClassVar[str] = (
        "Replace the checklist the user sees. Use it for work of several steps, as they progress."
    )
    arguments: ClassVar[type[msgspec.Struct]] = UpdateTodoListArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="TodoWrite",
        hook_arguments={"todos": "todos"},
        explained=frozenset({"todos"}),
    )

    async def prepare(self, args: UpdateTodoListArgs, ctx: ToolContext) -> Action:
        todos = checklist(args.todos)
        if args.todos.strip() and not todos:
            raise BadArguments("todos holds no item. Write each on a line of its own, as [ ] text.")

        async def perform(permit: Permit) -> Outcome:
            ctx.append(TodosChanged(todos=todos))
            return Outcome(text="The list was updated.")

        return Action(
            title="Update the todo list",
            perform=perform,
            payload={"tool": "updateTodoList", "todos": [to_builtins(todo) for todo in todos]},
        )


def checklist(markdown: str) -> tuple[Todo, ...]:
    """The items of a checklist. An item keeps its id for as long as its words stay the same."""
    seen: Counter[str] = Counter()
    todos: list[Todo] = []
    for line in markdown.splitlines():
        if item := _ITEM.fullmatch(line):
            content = item[2].rstrip()
            seen[content] += 1
            if len(todos) == MOST_ITEMS:
                raise BadArguments(f"The list has more than {MOST_ITEMS} items. Shorten it.")
            todos.append(
                Todo(id=_id(content, seen[content]), content=content, status=_STATUS[item[1]])
            )
    return tuple(todos)


def _id(content: str, occurrence: int) -> str:
    return hashlib.sha256(f"{occurrence} {content}".encode("utf-8", "replace")).hexdigest()[:16]


TOOL = UpdateTodoList()
