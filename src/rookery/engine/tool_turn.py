"""One tool call, from arguments to recorded result.

Hidden characters are shown to the model as marks. A mark that the model copies into an edit of the
same file is turned back into the character. Anywhere else it would become text, so the call is
refused.

A call that started and has no recorded end (the process died, or the step was cancelled) is
reconciled: file hashes show what was done, commands count as unknown, and nothing is run again.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    Change,
    CommandEnded,
    Ending,
    Event,
    Gathered,
    Reminded,
    StepCancelled,
    ToolFinished,
    ToolStarted,
)
from rookery.core.replies import ALLOWED_NOW, STOPPED_BY_USER, approved_with, failed
from rookery.core.text.characters import hidden_marks, marked, marks_in, texts_in, unmarked
from rookery.core.text.terminal_text import HIDDEN, Hiding
from rookery.core.tool_traits import ToolGroup
from rookery.core.undo_plan import was_formatted
from rookery.engine.event_log import EventLog
from rookery.engine.gate import Gate, shown_text, with_amendments
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import EditChecks
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.engine.ports.workspace import Files
from rookery.engine.undo import Undo
from rookery.errors import BadArguments, Denied, StorageError, ToolError
from rookery.faults import kp
from rookery.first_use import lazy_pattern, prepared

NAMED, LONGEST_NAME = 10, 100
"""How much of a malformed call is repeated to the model."""

_debug = logging.getLogger(__name__)

MOST_FILES = 20
_NAMES = ("path", "file_path")
_IN_PATCH = lazy_pattern(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)


async def tool_turn(
    call: ToolCall,
    *,
    log: EventLog,
    gate: Gate,
    undo: Undo,
    tools: Mapping[str, Tool[Any]],
    ctx: ToolContext,
    hide: Hiding,
    checks: EditChecks,
) -> None:
    """Carry out one call. Every failure becomes a result that the model reads."""
    halts = False
    try:
        outcome = await _perform(call, log, gate, undo, tools, ctx, hide, checks)
        halts = outcome.halts
    except ToolError as error:
        outcome = _refusal(error)
        halts = isinstance(error, Denied) and error.halts
    except StorageError:
        raise
    except Exception as error:
        # a bug in one tool must not end the task: the model can go another way
        _debug.exception("%s broke down in call %s", call.name, call.id)
        reason = f"{call.name} failed ({type(error).__name__}: {error}) in call {call.id}."
        outcome = Outcome(text=failed(reason), ending=Ending.FAILED)
    log.append(finished(call, outcome, hide))
    await undo.after(call.id)
    if (paths := undo.files_to_restore(call.id)) and await gate.ask_to_restore(call, paths):
        await undo.revert(call.id, paths)
    if halts:
        log.append(StepCancelled())
        return
    if outcome.blocked and await gate.ask_to_allow_hosts(call, outcome.blocked):
        log.append(Reminded(text=ALLOWED_NOW.format(", ".join(outcome.blocked))))


async def _perform(
    call: ToolCall,
    log: EventLog,
    gate: Gate,
    undo: Undo,
    tools: Mapping[str, Tool[Any]],
    ctx: ToolContext,
    hide: Hiding,
    checks: EditChecks,
) -> Outcome:
    """Prepare, get a permit, save the files, record the start, perform, format, report."""
    _parse(call, tools)
    call = await gate.rewrite(call)
    tool, args = _parse(await with_hidden_characters(call, tools, ctx.files, log.events), tools)
    if reason := ctx.barred(call.name):
        raise BadArguments(reason)
    action = await tool.prepare(args, ctx)
    _refuse_to_write_placeholders(call, action)
    async with ctx.alone(action):
        await checks.begin(action)
        try:
            permit, answer = await gate.pass_through(call, action)
            await ctx.files.save_buffers(action.changes, permit)
            narrowed, formatted = permit.writable is not None, checks.formats(action)
            await undo.before(call, action, narrowed=narrowed, formatted=formatted)
        except Denied as refusal:
            reads = action.judgement is not None and action.judgement.meant_to_read
            refusal.would_change = action.may_change_files and not reads
            raise
        log.append(_started(call, action, hide))
        kp("tool.started")
        try:
            outcome = await action.perform(permit)
            kp("tool.performed")
            await checks.format(call, action)
        except anyio.get_cancelled_exc_class():
            if action.command:
                stopped = Outcome(text=STOPPED_BY_USER, ending=Ending.FAILED)
                log.append(finished(call, stopped, hide))
            undo.settle_soon(call.id)
            await gate.interrupted(call, action)
            raise
        except ToolError as error:
            outcome = _with_approval_text(answer, _refusal(gate.with_code(call, error)))
            return await gate.ended(call, action, outcome)
        outcome = await gate.report(call, action, outcome)
        outcome = await with_amendments(ctx.files, action, permit, outcome)
        try:
            outcome = await checks.report(action, permit, outcome)
        except anyio.get_cancelled_exc_class():
            undo.settle_soon(call.id)
            raise
        return _with_approval_text(answer, outcome)


async def own_action(call: ToolCall, action: Action, *, gate: Gate, undo: Undo | None) -> Outcome:
    """Perform an action that the model did not request, if the gate permits it. Without `undo` it
    is part of a call whose files are saved already."""
    permit, _ = await gate.pass_through(call, action)
    if undo:
        await undo.before(call, action)
    outcome = await gate.report(call, action, await action.perform(permit))
    if undo:
        await undo.after(call.id)
    return outcome


def _with_approval_text(answer: Answered | None, outcome: Outcome) -> Outcome:
    """Add the text and images of the user's approval to the result, whatever the outcome."""
    if answer is None:
        return outcome
    text = approved_with(answer.text, outcome.text) if answer.text else outcome.text
    return replace(outcome, text=text, images=(*outcome.images, *answer.images))


def _parse(call: ToolCall, tools: Mapping[str, Tool[Any]]) -> tuple[Tool[Any], msgspec.Struct]:
    """Return the tool and its parsed arguments. Raises `BadArguments` that lists every problem."""
    tool = tools.get(call.name)
    if tool is None:
        raise BadArguments(f"No such tool: {_brief(call.name)}. Tools: {', '.join(tools)}.")
    if call.problem:
        raise BadArguments(f"Invalid call of {call.name}. {call.problem}")
    if problems := _problems(call, tool):
        raise BadArguments(f"Invalid call of {call.name}. {' '.join(problems)}")
    try:
        return tool, msgspec.convert(dict(call.arguments), prepared(tool.arguments), strict=False)
    except msgspec.ValidationError as error:
        raise BadArguments(f"Invalid call of {call.name}. {error}.") from error


def _problems(call: ToolCall, tool: Tool[Any]) -> list[str]:
    fields = _fields(tool.arguments)
    missing = [name for name, required in fields.items() if required and name not in call.arguments]
    unknown = [name for name in call.arguments if name not in fields]
    known = ", ".join(fields)
    return [
        *(f"{name} is missing." for name in missing),
        *(f"Unknown argument: {_brief(name)}." for name in unknown[:NAMED]),
        *([f"{len(unknown) - NAMED} more are unknown."] if len(unknown) > NAMED else []),
        *([f"The arguments are: {known}."] if unknown else []),
    ]


@cache
def _fields(arguments: type[msgspec.Struct]) -> Mapping[str, bool]:
    """The names of a tool's arguments, and whether each is required."""
    return {field.encode_name: field.required for field in msgspec.structs.fields(arguments)}


def _brief(name: str) -> str:
    return repr(name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…")


def _refuse_to_write_placeholders(call: ToolCall, action: Action) -> None:
    """Refuse to write the placeholder of a hidden secret into a file."""
    if action.changes and any(HIDDEN in text for text in texts_in(dict(call.arguments))):
        raise ToolError(
            f"Nothing was changed: {HIDDEN} stands for a hidden secret and would "
            "overwrite it. Make an edit that does not touch that line."
        )


def _started(call: ToolCall, action: Action, hide: Hiding) -> ToolStarted:
    return ToolStarted(
        call_id=call.id,
        tool=call.name,
        title=hide(action.title),
        ask=action.ask,
        text=hide(shown_text(action)),
        changes=tuple(action.changes),
        command=hide(action.command),
        external=action.external,
        child=action.child,
        agents=tuple(action.agents),
        only_reads=not action.may_change_files,
    )


def finished(call: ToolCall, outcome: Outcome, hide: Hiding) -> ToolFinished:
    return ToolFinished(
        call_id=call.id,
        text=marked(hide(outcome.text)),
        ending=outcome.ending,
        images=outcome.images,
        exit_code=outcome.exit_code,
        seen=outcome.seen,
        spent=outcome.spent,
        refusal=outcome.refusal,
        would_change=outcome.would_change,
        agents=outcome.agents,
    )


def _refusal(error: ToolError) -> Outcome:
    match error:
        case Denied(code=code, retryable=retryable, would_change=change):
            ending = Ending.FAILED if retryable else Ending.DENIED
            return Outcome(
                text=str(error),
                ending=ending,
                images=error.images,
                refusal=code,
                would_change=change,
            )
        case BadArguments():
            return Outcome(text=failed(str(error)), ending=Ending.MISTAKEN)
        case _:
            return Outcome(text=failed(str(error)), ending=Ending.FAILED)


async def gathered(
    lookup: Awaitable[Gathered], hide: Hiding, note: Callable[[str], None]
) -> Gathered:
    """The result of resolving mentions. What a message points at must not end the task, now and
    whenever it is reopened."""
    try:
        found = await lookup
    except StorageError:
        raise
    except Exception as error:
        _debug.exception("mentions could not be resolved")
        reason = f"Your mentions could not be resolved ({type(error).__name__}: {error})."
        note(reason)
        found = Gathered(text=f"[automatic] {reason}")
    return replace(found, text=marked(hide(found.text)))


async def with_hidden_characters(
    call: ToolCall, tools: Mapping[str, Tool[Any]], files: Files, events: Iterable[Event]
) -> ToolCall:
    """Replace marks with the hidden characters they stand for in the edited files. Raises
    `ToolError` if a mark is left that the model has read."""
    arguments = dict(call.arguments)
    tool = tools.get(call.name)
    if tool is None or tool.group not in (ToolGroup.EDIT, ToolGroup.COMMAND):
        return call
    if not any(map(marks_in, texts_in(arguments))):
        return call
    original = ""
    if tool.group is ToolGroup.EDIT:
        for path in list(dict.fromkeys(_paths(arguments)))[:MOST_FILES]:
            original += await _content(path, files)
        arguments = _unmarked(arguments, original)
    _refuse_copied_marks(arguments, original, events)
    return replace(call, arguments=arguments)


def _refuse_copied_marks(
    arguments: Mapping[str, Any], original: str, events: Iterable[Event]
) -> None:
    marks = [mark for text in texts_in(arguments) for mark in hidden_marks(text)]
    left = [mark for mark in marks if mark not in original]
    if not left:
        return
    read = [
        event.fact.text
        for event in events
        if isinstance(event.fact, ToolFinished | CommandEnded | Gathered)
    ]
    if copied := next((mark for mark in left if any(mark in text for text in read)), ""):
        raise ToolError(
            f"Nothing was done: {copied}, which you have read, marks a hidden character and would "
            f"become text here. Write the character itself, or {copied[1:-1]} if you mean the text."
        )


def _paths(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in _NAMES:
        if isinstance(path := arguments.get(name), str):
            yield path
    if isinstance(patch := arguments.get("patch"), str):
        yield from _IN_PATCH.findall(patch)


async def _content(path: str, files: Files) -> str:
    try:
        file = await files.examine(path)
    except ToolError:
        return ""
    return file.text if file else ""


def _unmarked(value: Any, original: str) -> Any:
    match value:
        case str():
            return unmarked(value, original)
        case dict():
            return {key: _unmarked(each, original) for key, each in value.items()}
        case list() | tuple():
            return [_unmarked(each, original) for each in value]
    return value


class CallFate(Enum):
    DONE = "was done"
    FORMATTED = "was done, and then formatted; read the file before you edit it again"
    NOT_DONE = "was not done"
    UNKNOWN = "may have been done; the file has changed meanwhile"


_ENDINGS = {
    frozenset({CallFate.DONE}): Ending.DONE,
    frozenset({CallFate.FORMATTED}): Ending.DONE,
    frozenset({CallFate.DONE, CallFate.FORMATTED}): Ending.DONE,
    frozenset({CallFate.NOT_DONE}): Ending.FAILED,
}


async def reconcile(
    started: ToolStarted, files: Files, events: Sequence[Event] = ()
) -> ToolFinished:
    """The result of a call whose end was not recorded, as far as it can be known."""
    if started.command:
        text = (
            f"The task was interrupted while this command ran: {started.command}\n"
            "It may have run wholly, in part, or not at all. Check before you run it again."
        )
        return ToolFinished(call_id=started.call_id, text=text, ending=Ending.UNKNOWN)
    if not started.changes:
        text = f"The task was interrupted during this call: {started.title}. It may have happened."
        return ToolFinished(call_id=started.call_id, text=text, ending=Ending.UNKNOWN)
    changes, formatted = started.changes, was_formatted(events, started.call_id)
    fates = {change.path: await _fate(change, files, formatted=formatted) for change in changes}
    lines = [f"{path}: the change {fate.value}." for path, fate in fates.items()]
    return ToolFinished(
        call_id=started.call_id,
        text="\n".join(["The task was interrupted during this call.", *lines]),
        ending=_ENDINGS.get(frozenset(fates.values()), Ending.UNKNOWN),
    )


async def _fate(change: Change, files: Files, *, formatted: bool) -> CallFate:
    try:
        await files.remove_unfinished(change)
        now = await files.sha(change.path)
    except ToolError:  # it has become something else, or is out of reach
        return CallFate.UNKNOWN
    if now == change.after:
        return CallFate.DONE
    if formatted:
        return CallFate.FORMATTED
    return CallFate.NOT_DONE if now == change.before else CallFate.UNKNOWN
