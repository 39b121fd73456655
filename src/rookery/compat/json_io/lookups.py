"""Answers the queries of the `--json-io` driver, and passes on its answers to questions."""

from collections.abc import Callable, Mapping, Sequence

from rookery.compat.json_io.message_reader import REPLIES, DriverMessage
from rookery.compat.json_io.messages import EngineMessages, WebviewQuestion
from rookery.compat.json_io.row_messages import CHECKPOINT, Wire
from rookery.compat.structured_output.call_rows import output
from rookery.core import commands
from rookery.core.asks import Reply, reply_of, takes
from rookery.core.blocks import Image
from rookery.core.queries import (
    AskCommands,
    AskDifferences,
    AskModels,
    AskModes,
    AskPaths,
    AskServers,
    FileDifference,
    FoundPath,
    KnownCommand,
    KnownMcpServer,
    KnownMode,
    KnownModel,
)
from rookery.errors import CommandRejected, RookeryError, SettingsError
from rookery.protocol.attend import Say, answer_to, new_message
from rookery.protocol.codec import Host

TAKES_WORDS = "This question needs text. Send it as a messageResponse."


class EngineAnswers:
    """Sends answers to the question they name, and messages to the task that is working."""

    def __init__(self, host: Host, messages: EngineMessages, note: Callable[[str], None]) -> None:
        self._host = host
        self._messages = messages
        self._note = note
        self._end_requested: bool | None = None
        """Whether to end the running command once that is possible; None if not requested."""

    async def answer(self, given: Wire, images: tuple[Image, ...]) -> None:
        choice, text = given.get("choice"), given.get("text", "")
        reply = reply_of(choice) if choice else REPLIES[given["askResponse"]]
        question = self._messages.question
        if question is None or not _is_about(given, question):
            await self._handle_unmatched(reply, given, images)
            return
        if reply not in takes(question.ask):
            if not (text.strip() or images):
                raise SettingsError(TAKES_WORDS)
            reply = "message"
        always = given.get("always", False)
        await self.send(question, Say(reply, text, images, always=always, choice=choice))

    async def send(self, question: WebviewQuestion, said: Say) -> None:
        self._messages.answer(question)
        try:
            await self._host.send(answer_to(question.task_id, question.row, said))
        except CommandRejected:
            self._messages.unanswer(question)
            self._note("An answer came too late, so it was ignored.")

    async def resume_queued(self, question: WebviewQuestion) -> None:
        """Continue with messages that arrived just before the completion question."""
        await self.send(question, Say("message", by="policy"))

    async def speak(self, text: str, images: tuple[Image, ...]) -> None:
        if not (text.strip() or images):
            self._note("An empty message was not queued.")
            return
        await self._host.send(new_message(self._receiver(), text, images))

    async def edit_queue(self, message_id: str, text: str | None) -> None:
        edit = commands.EditQueue(task_id=self._receiver(), message_id=message_id, text=text)
        await self._host.send(edit)

    async def handle_command(self, *, ends: bool) -> None:
        offer = self._messages.offer
        self._end_requested = None
        if offer:
            await self.send(offer, Say("no" if ends else "yes"))
        elif self._messages.commands.foreground:
            self._end_requested = ends  # sent once the command can be handled
        elif ends and (found := self._messages.commands.background):
            await self._host.send(commands.StopCommand(task_id=found[0], call_id=found[1]))

    async def handle_offer(self) -> None:
        """Handle the running command as requested before, now that this is possible."""
        if self._end_requested is not None:
            await self.handle_command(ends=self._end_requested)

    async def _handle_unmatched(self, reply: Reply, given: Wire, images: tuple[Image, ...]) -> None:
        """Handle an answer without an open question. A message that names no question is queued."""
        offer, row, text = self._messages.offer, given.get("messageTs"), given.get("text", "")
        if offer and row == offer.row.ts and reply != "message":
            await self.send(offer, Say(reply, text, images))
        elif reply == "message" and row is None and not self._messages.over:
            await self.speak(text, images)
        else:
            self._note("An answer to a closed question was ignored.")

    def _receiver(self) -> str:
        at_work = self._messages.at_work
        if at_work is None or self._messages.over:
            raise SettingsError(NO_TASK)
        return at_work.task_id


def _is_about(given: Wire, question: WebviewQuestion) -> bool:
    right_row = given.get("messageTs", question.row.ts) == question.row.ts
    return right_row and given.get("taskId", "") in ("", question.task_id)


NO_TASK = "No task is open. Start one with newTask."
NO_MESSAGE = "No message has this ts. Nothing was changed."
FIRST_MESSAGE = "The first message cannot be changed. Start a new task with newTask."
NO_CHECKPOINT = "No checkpoint has this ts."

SOURCES = {"user": "global"}
"""Names of sources that differ in this format."""


LOOKUPS = {
    *("requestCommands", "requestModes", "requestRouterModels", "requestRooModels"),
    *("searchFiles", "webviewDidLaunch", "checkpointDiff"),
    *("deleteMessage", "editMessage", "submitEditedMessage"),
}
"""Messages that are answered with what was found."""


async def look_up(host: Host, messages: EngineMessages, message: DriverMessage) -> Sequence[Wire]:
    """Answer a query, or return the reason why that is not possible."""
    try:
        return [await _found(host, messages, message)]
    except RookeryError as refusal:
        return [_not_found(message, str(refusal))]


def checkpoint(messages: EngineMessages, row: float) -> int:
    """Return the number of the event at which a checkpoint was saved."""
    saved = messages.task.row(int(row)) if messages.task else None
    if saved is None or saved.say != CHECKPOINT:
        raise SettingsError(NO_CHECKPOINT)
    return saved.seq


def before_message(messages: EngineMessages, row: float) -> int:
    """Return the number of the event before a message of the shown task."""
    task = messages.task
    if task is None or messages.over:
        raise SettingsError(NO_TASK)
    message = task.row(int(row))
    if message is None:
        raise SettingsError(NO_MESSAGE)
    if message.seq == 1:
        raise SettingsError(FIRST_MESSAGE)
    return message.seq - 1


async def _found(host: Host, messages: EngineMessages, message: DriverMessage) -> Wire:
    given = message.fields
    match message.type:
        case "requestCommands":
            return _command_list(await host.query(AskCommands()))
        case "requestModes":
            return _mode_list(await host.query(AskModes()))
        case "requestRouterModels":
            return _model_list(await host.query(AskModels(local=True)))
        case "requestRooModels":
            known = await host.query(AskModels(local=False))
            return _model_list(known, messages.about.provider)
        case "searchFiles":
            return _file_results(await host.query(AskPaths(letters=given.get("query", ""))), given)
        case "webviewDidLaunch":
            return _server_list(await host.query(AskServers()))
        case "checkpointDiff":
            row, span = given["payload"].get("ts"), given["payload"].get("mode") or "checkpoint"
            found = await host.query(_span(messages, row, span))
            return _difference_list(found, row, span)
        case _:
            return _review_dialog(messages, given)


def _span(messages: EngineMessages, row: float | None, span: str) -> AskDifferences:
    """What to compare; without a `row` from the start of the task."""
    task = messages.task
    if task is None or messages.over:
        raise SettingsError(NO_TASK)
    at = checkpoint(messages, row) if row is not None else 0
    later = task.checkpoints(at)
    since, until = {
        "checkpoint": (at, next(later, None)),
        "from-init": (0, at or None),
        "to-current": (at, None),
        "full": (0, None),
    }[span]
    return AskDifferences(task_id=task.task_id, since=since, until=until)


def _command_list(known: tuple[KnownCommand, ...]) -> Wire:
    listed = [
        output(
            name=each.name,
            source=SOURCES.get(each.source, each.source),
            description=each.description or None,
            argumentHint=each.argument_hint or None,
        )
        for each in known
    ]
    return {"type": "commands", "commands": listed}


def _mode_list(known: tuple[KnownMode, ...]) -> Wire:
    listed = [
        output(
            slug=each.slug,
            name=each.name,
            whenToUse=each.when_to_use or None,
            source=SOURCES.get(each.source, each.source),
        )
        for each in known
    ]
    return {"type": "modes", "modes": listed}


def _model_list(known: tuple[KnownModel, ...], provider: str = "") -> Wire:
    """List the models by provider, or those of one provider."""
    tables: dict[str, Wire] = {provider: {}} if provider else {}
    for each in known:
        tables.setdefault(each.provider, {})[each.model] = _model(each)
    if not provider:
        return {"type": "routerModels", "routerModels": tables}
    return _fetched(provider, tables[provider])


def _file_results(found: tuple[FoundPath, ...], given: Wire) -> Wire:
    results = [
        {
            "path": each.path,
            "type": "folder" if each.folder else "file",
            "label": each.path.rstrip("/").rpartition("/")[2],
        }
        for each in found
    ]
    return output(
        type="fileSearchResults", results=results, requestId=given.get("requestId") or None
    )


def _difference_list(found: tuple[FileDifference, ...], row: float | None, span: str) -> Wire:
    """Return the differences as data, because there is no editor to show them in."""
    listed = [output(path=each.path, change=each.change, diff=each.diff or None) for each in found]
    return output(type="checkpointDiffResult", ts=row, mode=span, files=listed)


def _server_list(known: tuple[KnownMcpServer, ...]) -> Wire:
    listed = [
        output(
            name=each.name,
            config="{}",
            status="connected" if each.state == "connected" else "disconnected",
            disabled=each.state == "disabled",
            source=SOURCES.get(each.source, each.source),
            error=each.error or None,
            tools=[{"name": tool} for tool in each.tools],
        )
        for each in known
    ]
    return {"type": "mcpServers", "mcpServers": listed}


def _review_dialog(messages: EngineMessages, given: Wire) -> Wire:
    """Return the dialog that the webview shows before a message is deleted or edited."""
    row, text = given["value"], given.get("editedMessageContent")
    after = before_message(messages, row)
    checkpoints = messages.task.checkpoints(after) if messages.task else ()
    return output(
        type=f"show{'Delete' if text is None else 'Edit'}MessageDialog",
        messageTs=row,
        hasCheckpoint=any(checkpoints),
        text=text,
        images=given.get("images") or None,
    )


def unloaded_pictures(problems: Sequence[Mapping[str, str]]) -> Wire:
    names = ", ".join(each["path"] for each in problems)
    return {
        "type": "image_load_error",
        "errors": list(problems),
        "message": f"These images could not be shown and were left out: {names}.",
    }


def _not_found(message: DriverMessage, reason: str) -> Wire:
    match message.type:
        case "searchFiles":
            return {**_file_results((), message.fields), "error": reason}
        case "requestRooModels":
            return {**_fetched("", {}), "success": False, "error": reason}
        case _:
            return {"event": "error", "error": reason}


def _fetched(provider: str, table: Wire) -> Wire:
    return {
        "type": "singleRouterModelFetchResponse",
        "success": True,
        "values": {"provider": provider, "models": table},
    }


def _model(known: KnownModel) -> Wire:
    return output(
        contextWindow=known.window or None,
        supportsImages=known.images,
        inputPrice=known.price_in,
        outputPrice=known.price_out,
    )
