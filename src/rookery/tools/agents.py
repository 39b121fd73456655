"""Start agents that work side by side, and apply what a worker changed."""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Struct

from rookery.core.facts import AgentTask, Change, Spent
from rookery.core.modes import Mode, reading_only
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext, WorkerTree, WorkFile, Worktrees
from rookery.errors import BadArguments, ToolError
from rookery.first_use import lazy_pattern
from rookery.tools.conversation import gained, wanted_mode
from rookery.tools.file_changes import in_thread, readable_diff

if TYPE_CHECKING:
    from rookery.tools.apply_patch import FileStep, Operation

MOST_AT_ONCE = 16
LONGEST_NAME = 40
_AMOUNT = lazy_pattern(
    r"\$\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(requests?|min(?:utes?)?|m)", re.IGNORECASE
)
NO_REPOSITORY = (
    "Workers need a trusted folder, and a git repository with a commit in it. Use new_task instead."
)
FROM_LAST_COMMIT = "Workers start from the last commit; changes that are not committed are missing."


class AgentArgs(msgspec.Struct, forbid_unknown_fields=True):
    task: str
    works: bool = False
    name: str | None = None
    mode: str | None = None
    model: str | None = None
    budget: Annotated[str | None, msgspec.Meta(description="9 requests, $1, 5 min")] = None


class RunAgentsArgs(msgspec.Struct, forbid_unknown_fields=True):
    agents: list[AgentArgs] | None = None
    apply: str | None = None


class RunAgents(Struct):
    """`modes` returns all modes. `unusable` says why a model cannot be used."""

    name: ClassVar[str] = "run_agents"
    description: ClassVar[str] = (
        "As new_task, for independent parts at once. An agent only reads, or works in a git "
        "worktree of its own; apply takes the branch of one."
    )
    arguments: ClassVar[type[msgspec.Struct]] = RunAgentsArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Task",
        hook_arguments={"agents": "agents"},
        aliases=("Agent",),
        editor_kind="think",
    )

    modes: Callable[[], Sequence[Mode]]
    unusable: Callable[[str, str], str]

    async def prepare(self, args: RunAgentsArgs, ctx: ToolContext) -> Action:
        if args.apply and not args.agents:
            return await _apply(args.apply, ctx)
        if args.apply or not args.agents:
            raise BadArguments("Give either agents to start, or the branch to apply.")
        return await self._start(args.agents, ctx)

    async def _start(self, wanted: Sequence[AgentArgs], ctx: ToolContext) -> Action:
        children, most = ctx.children, min(MOST_AT_ONCE, ctx.agents_left())
        if children is None or most < 1:
            raise ToolError("No agent can be started from here. Use new_task, or do it yourself.")
        if len(wanted) > most:
            raise ToolError(f"At most {most} more agents can be started. Give each more to do.")
        worktrees = ctx.worktrees() if any(each.works for each in wanted) else None
        names = _names(wanted)
        modes, found = self.modes(), [self._checked(each) for each in wanted]
        agents = [
            await self._agent(name, each, mode, children.new_id(), worktrees)
            for name, each, mode in zip(names, wanted, found, strict=True)
        ]

        async def perform(permit: Permit) -> Outcome:
            return await children.attend_all(ctx.call_id, agents)

        many = "an agent" if len(agents) == 1 else f"{len(agents)} agents"
        shown = "\n\n".join(map(_shown, agents))
        workers = any(agent.worktree for agent in agents)
        used = [
            mode if args.works else reading_only(mode)
            for args, mode in zip(wanted, found, strict=True)
        ]
        notes = dict.fromkeys(note for mode in used for note in gained(modes, ctx.mode, mode))
        return Action(
            title=f"Start {many}: {', '.join(names)}",
            perform=perform,
            agents=agents,
            notes=[*notes, *([FROM_LAST_COMMIT] if workers else [])],
            diff=shown,
            payload={"tool": "runAgents", "content": shown},
        )

    def _checked(self, args: AgentArgs) -> Mode:
        """The agent's mode, once everything about it is known to be valid."""
        mode = wanted_mode(self.modes(), args.mode or ("code" if args.works else "ask"))
        if not args.task.strip():
            raise BadArguments("An agent has no task. Say what it is to do.")
        _budget(args.budget or "")
        if args.model and (problem := self.unusable(*_model(args.model))):
            raise BadArguments(problem)
        return mode

    async def _agent(
        self, name: str, args: AgentArgs, mode: Mode, task_id: str, worktrees: Worktrees | None
    ) -> AgentTask:
        provider, model = _model(args.model or "")
        tree = WorkerTree(branch="", folder="", base="")
        if args.works:
            if worktrees is None:
                raise ToolError(NO_REPOSITORY)
            tree = await worktrees.plan(name, task_id)
        return AgentTask(
            task_id=task_id,
            name=name,
            text=args.task,
            mode=mode.slug,
            provider=provider,
            model=model,
            budget=_budget(args.budget or ""),
            branch=tree.branch,
            worktree=tree.folder,
            base=tree.base,
        )


def _names(agents: Sequence[AgentArgs]) -> list[str]:
    """A name for each, on one line and used once."""
    names: list[str] = []
    for number, agent in enumerate(agents, 1):
        plain = "".join(each for each in agent.name or "" if each.isprintable())
        said = " ".join(plain.split())[:LONGEST_NAME] or _usual_name(agent, number)
        names.append(f"{said} {number}" if said in names else said)
    return names


def _usual_name(agent: AgentArgs, number: int) -> str:
    return f"{'worker' if agent.works else 'explorer'} {number}"


def _budget(said: str) -> Spent:
    """A budget in words: numbers with `$`, `requests` or `min`."""
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, said.split(","))):
        match = _AMOUNT.fullmatch(part)
        if not match:
            raise BadArguments(f"{said!r} is not a budget. Write it as: 9 requests, $1, 5 min.")
        dollars, number, unit = match.groups()
        kind = "cost" if dollars else "seconds" if unit.startswith("m") else "requests"
        found[kind] = float(dollars or number) * (60 if kind == "seconds" else 1)
    return Spent(
        requests=math.ceil(found.get("requests", 0)),
        cost=found.get("cost", 0.0),
        seconds=found.get("seconds", 0.0),
    )


def _model(said: str) -> tuple[str, str]:
    """Provider and model, as in the setting `fallback`: `provider:model`, or only the model."""
    provider, colon, model = said.partition(":")
    return (provider, model) if colon and model else ("", said)


def _shown(agent: AgentTask) -> str:
    """An agent as the user sees it before it starts. Its id and branch are new each time."""
    budget = agent.budget
    parts = [
        f"{agent.mode} mode",
        f"model {agent.model}" if agent.model else "",
        "changes files in a worktree of its own" if agent.worktree else "only reads",
        f"at most {budget.requests} requests" if budget.requests else "",
        f"at most ${budget.cost:g}" if budget.cost else "",
        f"at most {budget.seconds / 60:g} min" if budget.seconds else "",
    ]
    return f"{agent.name}: {', '.join(filter(None, parts))}\n{agent.text.strip()}"


async def _apply(branch: str, ctx: ToolContext) -> Action:
    """Bring the changes of a worker into the workspace: all of them, or none."""
    from rookery.tools.apply_patch import together

    worktrees = ctx.worktrees()
    if worktrees is None:
        raise ToolError("This workspace is not a git repository, so workers cannot start.")
    work = await worktrees.work_on(branch)
    steps: list[FileStep] = []
    conflicts: list[str] = []
    for file in work.files:
        try:
            step = await _step(file, ctx, worktrees)
        except _Conflict:
            conflicts.append(file.path)
        else:
            steps += [step] if step else []
    if conflicts:
        raise ToolError(
            f"Nothing was changed: these files have changed on both sides: "
            f"{', '.join(conflicts)}. See `git diff HEAD...{branch}` or the worktree, "
            "and make these edits yourself."
        )
    if not steps:
        raise ToolError(f"The workspace already has the changes of {branch}.")
    notes = [f"Not applied: {each}." for each in work.left_out]
    return together(steps, ctx, title=f"Apply the work of {branch}", notes=notes)


class _Conflict(Exception):
    pass


async def _step(file: WorkFile, ctx: ToolContext, worktrees: Worktrees) -> "FileStep | None":
    """The change of one file of the workspace; None if it is as the worker left it."""
    from rookery.tools.apply_patch import FileStep

    place = ctx.files.place(file.path)
    if place.path != file.path or place.link:
        raise ToolError(f"{file.path} is reached by a link here; nothing was changed.")
    sha, new = await ctx.files.sha(file.path), file.after
    if sha == _sha(new):
        return None
    old = file.before
    if sha != _sha(old):
        old, new = await _merge(file, ctx, worktrees)
    change = Change(path=file.path, before=sha, after=_sha(new))
    operation: Operation = "deleted" if new is None else "modified" if sha else "created"
    diff = await in_thread(partial(readable_diff, _text(old), _text(new)))
    return FileStep(path=file.path, operation=operation, diff=diff, edits=((change, new),))


async def _merge(
    file: WorkFile, ctx: ToolContext, worktrees: Worktrees
) -> tuple[bytes | None, bytes | None]:
    """The file of the workspace, which has changed too, and the same with the worker's lines."""
    if file.before is None or file.after is None:
        raise _Conflict
    found = await ctx.files.examine(file.path)
    ours = found.encode(found.text) if found else None
    new = await worktrees.merged(file.before, ours, file.after) if ours is not None else None
    if new is None:
        raise _Conflict
    return ours, new


def _sha(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
