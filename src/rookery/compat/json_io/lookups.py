"""Looks up what the driver of `--json-io` wants to know."""

from collections.abc import Sequence

from rookery.compat.json_io import lookup_replies as replies
from rookery.compat.json_io import request_types as wants
from rookery.compat.json_io.message_rows import Wire
from rookery.compat.json_io.messages import EngineMessages
from rookery.core.queries import (
    AskCommands,
    AskDifferences,
    AskModels,
    AskModes,
    AskPaths,
    AskServers,
)
from rookery.errors import RookeryError, SettingsError
from rookery.protocol.host_interface import Host

NO_TASK = "There is no task. Begin one with newTask."
NO_MESSAGE = "There is no message with this ts. Nothing was changed."
FIRST_MESSAGE = "The first message cannot be changed. Begin a new task with newTask."
NO_CHECKPOINT = "There is no checkpoint with this ts."


async def look_up(host: Host, told: EngineMessages, request: wants.Request) -> Sequence[Wire]:
    """The answer to a query; of one that cannot be answered, why."""
    try:
        return [await _found(host, told, request)]
    except RookeryError as refusal:
        return [replies.not_found(request, str(refusal))]


def checkpoint(told: EngineMessages, row: float) -> int:
    """The event at which a checkpoint was saved."""
    saved = told.task.row(int(row)) if told.task else None
    if saved is None or saved.say != "checkpoint_saved":
        raise SettingsError(NO_CHECKPOINT)
    return saved.seq


def before_message(told: EngineMessages, row: float) -> int:
    """The event before a message of the task that is shown."""
    task = told.task
    if task is None or told.over:
        raise SettingsError(NO_TASK)
    message = task.row(int(row))
    if message is None:
        raise SettingsError(NO_MESSAGE)
    if message is task.view.messages[0]:
        raise SettingsError(FIRST_MESSAGE)
    return message.seq - 1


async def _found(host: Host, told: EngineMessages, request: wants.Request) -> Wire:
    match request:
        case wants.WantCommands():
            return replies.commands(await host.query(AskCommands()))
        case wants.WantModes():
            return replies.modes(await host.query(AskModes()))
        case wants.WantModels(only_ours=only_ours):
            known = await host.query(AskModels(local=not only_ours))
            return replies.models(known, told.about.provider if only_ours else "")
        case wants.FindFiles(letters=letters):
            return replies.files(await host.query(AskPaths(letters=letters)), request)
        case wants.Launch():
            return replies.servers(await host.query(AskServers()))
        case wants.ReviewMessage(row=row):
            after = before_message(told, row)
            rows = told.task.view.messages if told.task else ()
            saved = any(each.say == "checkpoint_saved" and each.seq > after for each in rows)
            return replies.review(request, has_checkpoint=saved)
        case wants.CompareFiles():
            return replies.differences(await host.query(_span(told, request)), request)
        case _:
            raise SettingsError(f"{type(request).__name__} is nothing that can be looked up.")


def _span(told: EngineMessages, request: wants.CompareFiles) -> AskDifferences:
    task = told.task
    if task is None or told.over:
        raise SettingsError(NO_TASK)
    at = checkpoint(told, request.row) if request.row is not None else 0
    saved = (row.seq for row in task.view.messages if row.say == "checkpoint_saved")
    later = (seq for seq in saved if seq > at)
    since, until = {
        "checkpoint": (at, next(later, None)),
        "from-init": (0, at or None),
        "to-current": (at, None),
        "full": (0, None),
    }[request.span]
    return AskDifferences(task_id=task.task_id, since=since, until=until)
