"""Tools that touch no file: ask, finish, plan, switch the mode, load a skill, start a sub-task."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Struct, to_builtins

from rookery.core.asks import AskKind
from rookery.core.facts import Answered, CompletionOffered, ModeSwitched, Todo, TodosChanged
from rookery.core.instructions import Skill, quoted, skill_text
from rookery.core.modes import Mode, find_mode, gains
from rookery.core.replies import user_message
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ChildTask, ToolContext
from rookery.errors import BadArguments, ToolError
from rookery.first_use import lazy_pattern
from rookery.tools.file_changes import in_thread

MOST_ITEMS = 1000

_ITEM = lazy_pattern(r"\s*(?:[-*]\s+)?\[([ xX~-])\]\s+(\S.*)")
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
            raise BadArguments("todos has no items. Write each on its own line, as [ ] text.")

        async def perform(permit: Permit) -> Outcome:
            ctx.append(TodosChanged(todos=todos))
            return Outcome(text="The list was updated.")

        return Action(
            title="Update the todo list",
            perform=perform,
            payload={"tool": "updateTodoList", "todos": [to_builtins(todo) for todo in todos]},
        )


def checklist(markdown: str) -> tuple[Todo, ...]:
    """The items of a checklist. An item keeps its id while its text stays the same."""
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
        "Present the finished task to the user. Call it alone, once all other calls have succeeded."
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


class PresentPlanArgs(msgspec.Struct, forbid_unknown_fields=True):
    plan: Annotated[
        str, msgspec.Meta(description="All of it, in Markdown; the steps as - [ ] items.")
    ]


class PresentPlan(Struct):
    """`planning` tells whether the user wants a plan. `keep` stores it as a file of the session,
    and returns its path."""

    name: ClassVar[str] = "present_plan"
    description: ClassVar[str] = (
        "Submit the plan for approval. Call it alone, once you have read what you need."
    )
    arguments: ClassVar[type[msgspec.Struct]] = PresentPlanArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(hook_name="ExitPlanMode")

    planning: Callable[[], bool]
    keep: Callable[[str], str]

    async def prepare(self, args: PresentPlanArgs, ctx: ToolContext) -> Action:
        if not self.planning():
            raise BadArguments("The user wants no plan now. Continue with the task.")
        if not args.plan.strip():
            raise BadArguments("present_plan was called without a plan.")

        async def perform(permit: Permit) -> Outcome:
            path = await in_thread(lambda: self.keep(args.plan))
            ctx.append(CompletionOffered(result=args.plan, plan=path))
            return Outcome(text="The plan was shown to the user.")

        return Action(
            title="Present the plan",
            perform=perform,
            payload={"tool": "presentPlan", "plan": args.plan},
        )


UNATTENDED = "[automatic] Not interactive: the user has decided and allowed nothing."
TAKEN = f"{UNATTENDED} Your own suggestion {{number}} was taken, which says no more than you did:"
DECIDE = f"{UNATTENDED} Decide yourself and go on."


class Suggestion(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    mode: Annotated[str | None, msgspec.Meta(description="Mode to switch to then.")] = None


class AskFollowupQuestionArgs(msgspec.Struct, forbid_unknown_fields=True):
    question: str
    follow_up: Annotated[
        list[Suggestion],
        msgspec.Meta(min_length=1, max_length=4, description="Whole answers to offer."),
    ]


class AskFollowupQuestion:
    name: ClassVar[str] = "ask_followup_question"
    description: ClassVar[str] = (
        "Ask the user for what you cannot find out yourself, and wait for the answer."
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
            said = user_message(answer.text) if answer.by == "user" else _auto_answer(answer, args)
            return Outcome(text=said, images=answer.images)

        return Action(
            title="Ask the user",
            perform=perform,
            payload={"tool": "askFollowupQuestion", **data},
        )


def _auto_answer(answer: Answered, args: AskFollowupQuestionArgs) -> str:
    """The result if a rule answered instead of the user."""
    offered = [suggestion.text for suggestion in args.follow_up]
    if answer.text not in offered:
        return DECIDE
    taken = TAKEN.format(number=offered.index(answer.text) + 1)
    return f"{taken}\n{quoted('your_suggestion', answer.text)}"


def _offered(suggestion: Suggestion) -> dict[str, Any]:
    mode = {"mode": suggestion.mode} if suggestion.mode else {}
    return {"answer": suggestion.text, **mode}


TOOLS = (AskFollowupQuestion(), AttemptCompletion(), UpdateTodoList())


class SkillArgs(msgspec.Struct, forbid_unknown_fields=True):
    skill: Annotated[str, msgspec.Meta(description="Its name.")]
    args: Annotated[str | None, msgspec.Meta(description="What it is to be applied to.")] = None


class LoadSkill(Struct):
    """`skills` returns the skills of a mode, `body` the text of one."""

    name: ClassVar[str] = "skill"
    description: ClassVar[str] = "Load the instructions of a skill that fits the task."
    arguments: ClassVar[type[msgspec.Struct]] = SkillArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    skills: Callable[[str], Sequence[Skill]]
    body: Callable[[Skill], str]

    async def prepare(self, args: SkillArgs, ctx: ToolContext) -> Action:
        skill = self._wanted(args.skill, ctx.mode)
        arguments = (args.args or "").strip()

        async def perform(permit: Permit) -> Outcome:
            body = await in_thread(lambda: self.body(skill))
            return Outcome(text=skill_text(skill, body, arguments))

        return Action(
            title=f"Load the skill {skill.name}",
            perform=perform,
            payload={
                "tool": "skill",
                "skill": skill.name,
                **({"args": arguments} if arguments else {}),
                "source": skill.origin,
                "description": skill.description,
            },
        )

    def _wanted(self, name: str, mode: str) -> Skill:
        skills = {skill.name: skill for skill in self.skills(mode)}
        if name not in skills:
            known = ", ".join(skills) or "none"
            raise BadArguments(f"No such skill in mode {mode}: {name[:100]!r}. Available: {known}.")
        return skills[name]


class SwitchModeArgs(msgspec.Struct, forbid_unknown_fields=True):
    mode_slug: str
    reason: Annotated[str, msgspec.Meta(description="Why, for the user.")] = ""


class SwitchModeTool(Struct):
    name: ClassVar[str] = "switch_mode"
    description: ClassVar[str] = "Propose to go on in another mode, if this one does not fit."
    arguments: ClassVar[type[msgspec.Struct]] = SwitchModeArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(editor_kind="switch_mode")

    modes: Callable[[], Sequence[Mode]]

    async def prepare(self, args: SwitchModeArgs, ctx: ToolContext) -> Action:
        target = self._wanted(args.mode_slug, ctx.mode)
        before = ctx.mode

        async def perform(permit: Permit) -> Outcome:
            ctx.append(ModeSwitched(mode=target.slug))
            why = f" Reason: {args.reason.strip()}" if args.reason.strip() else ""
            return Outcome(text=f"The mode is now {target.slug}; it was {before}.{why}")

        return Action(
            title=f"Switch to mode {target.slug}",
            perform=perform,
            mode=target.slug,
            diff=args.reason.strip(),
            payload={"tool": "switchMode", "mode": target.slug, "reason": args.reason},
        )

    def _wanted(self, slug: str, current: str) -> Mode:
        modes = self.modes()
        others = ", ".join(mode.slug for mode in modes if mode.slug != current)
        if slug == current:
            raise BadArguments(f"The mode is already {current}. The other modes are: {others}.")
        mode = find_mode(modes, slug)
        if mode is None:
            raise BadArguments(f"No such mode: {slug[:100]!r}. Available: {others}.")
        return mode


class NewTaskArgs(msgspec.Struct, forbid_unknown_fields=True):
    mode: str
    message: Annotated[
        str,
        msgspec.Meta(description="All it must know: context, work, limits, result."),
    ]
    todos: Annotated[str | None, msgspec.Meta(description="As in update_todo_list.")] = None


class NewTask(Struct):
    name: ClassVar[str] = "new_task"
    description: ClassVar[str] = (
        "Have a part done by a task of its own, which knows only the message; you get its result."
    )
    arguments: ClassVar[type[msgspec.Struct]] = NewTaskArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Task",
        editor_kind="think",
        hook_arguments={"message": "prompt", "mode": "subagent_type"},
        aliases=("Agent",),
        explained=frozenset({"todos"}),
    )

    modes: Callable[[], Sequence[Mode]]

    async def prepare(self, args: NewTaskArgs, ctx: ToolContext) -> Action:
        children = ctx.children
        if children is None:
            raise ToolError("No sub-task can be started from here.")
        if ctx.depth >= ctx.limits.task_depth:
            raise ToolError(
                f"Sub-tasks can be nested {ctx.depth} deep at most. Do this part yourself."
            )
        mode = wanted_mode(self.modes(), args.mode)
        if not args.message.strip():
            raise BadArguments("new_task was called without a message.")
        child = ChildTask(
            task_id=children.new_id(),
            text=args.message,
            mode=args.mode,
            todos=checklist(args.todos or ""),
        )

        async def perform(permit: Permit) -> Outcome:
            return await children.attend(ctx.call_id, child)

        return Action(
            title=f"Start a sub-task in {args.mode} mode",
            perform=perform,
            child=child.task_id,
            notes=gained(self.modes(), ctx.mode, mode),
            diff="\n".join([args.message, *(f"[ ] {todo.content}" for todo in child.todos)]),
            payload=child.payload(),
        )


def wanted_mode(modes: Sequence[Mode], slug: str) -> Mode:
    if mode := find_mode(modes, slug):
        return mode
    known = ", ".join(each.slug for each in modes)
    raise BadArguments(f"No such mode: {slug!r}. Available: {known}.")


def gained(modes: Sequence[Mode], slug: str, target: Mode) -> list[str]:
    """A note for the user if work in another mode may do more than the current one."""
    here = find_mode(modes, slug)
    more = ", ".join(gains(here, target)) if here else ""
    return [f"Mode {target.slug} may do more than mode {slug}: {more}."] if more else []
