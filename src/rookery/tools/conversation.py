"""What a model says to the user: a question, the checklist, the result."""

import hashlib
import json
import re
from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import to_builtins

from rookery.core.asks import AskKind
from rookery.core.facts import Answered, CompletionOffered, Todo, TodosChanged
from rookery.core.instructions import quoted
from rookery.core.replies import user_message
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


class AttemptCompletionArgs(msgspec.Struct, forbid_unknown_fields=True):
    result: Annotated[
        str, msgspec.Meta(description="What was done, final: no question, no further offer.")
    ]


class AttemptCompletion:
    name: ClassVar[str] = "attempt_completion"
    description: ClassVar[str] = (
        "Present the finished task to the user. Call it alone, once the results of all other "
        "calls have shown that they succeeded."
    )
    arguments: ClassVar[type[msgspec.Struct]] = AttemptCompletionArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    async def prepare(self, args: AttemptCompletionArgs, ctx: ToolContext) -> Action:
        if not args.result.strip():
            raise BadArguments("attempt_completion was called without a result. Say what was done.")

        async def perform(permit: Permit) -> Outcome:
            ctx.append(CompletionOffered(result=args.result))
            return Outcome(text="The result was shown to the user.")

        return Action(
            title="Finish the task",
            perform=perform,
            payload={"tool": "attemptCompletion", "result": args.result},
        )


NOBODY = "[automatic] Nobody is there to answer: the user has decided and allowed nothing."
TAKEN = f"{NOBODY} Your own suggestion {{number}} was taken, which says no more than you did:"
DECIDE = f"{NOBODY} Decide yourself and go on."


class Suggestion(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(description="A whole answer, ready to be sent.")]
    mode: Annotated[str | None, msgspec.Meta(description="Mode to switch to with this answer.")] = (
        None
    )


class AskFollowupQuestionArgs(msgspec.Struct, forbid_unknown_fields=True):
    question: Annotated[str, msgspec.Meta(description="What you need to know, in full.")]
    follow_up: Annotated[
        list[Suggestion],
        msgspec.Meta(min_length=1, max_length=4, description="Answers to offer."),
    ]


class AskFollowupQuestion:
    name: ClassVar[str] = "ask_followup_question"
    description: ClassVar[str] = (
        "Ask the user for what you cannot find out yourself. The task waits for the answer."
    )
    arguments: ClassVar[type[msgspec.Struct]] = AskFollowupQuestionArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="AskUserQuestion", skipped=frozenset({"mode"})
    )

    async def prepare(self, args: AskFollowupQuestionArgs, ctx: ToolContext) -> Action:
        if not args.question.strip():
            raise BadArguments("ask_followup_question was called without a question.")
        data = {"question": args.question, "suggest": [_offered(one) for one in args.follow_up]}

        async def perform(permit: Permit) -> Outcome:
            answer = await ctx.ask(AskKind.FOLLOWUP, json.dumps(data, ensure_ascii=False))
            said = user_message(answer.text) if answer.by == "user" else _by_nobody(answer, args)
            return Outcome(text=said, images=answer.images)

        return Action(
            title="Ask the user",
            perform=perform,
            payload={"tool": "askFollowupQuestion", **data},
        )


def _by_nobody(answer: Answered, args: AskFollowupQuestionArgs) -> str:
    """What the model is told if a rule has answered: no word of it is the user's."""
    offered = [suggestion.text for suggestion in args.follow_up]
    if answer.text not in offered:
        return DECIDE
    taken = TAKEN.format(number=offered.index(answer.text) + 1)
    return f"{taken}\n{quoted('your_suggestion', answer.text)}"


def _offered(suggestion: Suggestion) -> dict[str, Any]:
    mode = {"mode": suggestion.mode} if suggestion.mode else {}
    return {"answer": suggestion.text, **mode}


TOOLS = (AskFollowupQuestion(), AttemptCompletion(), UpdateTodoList())
