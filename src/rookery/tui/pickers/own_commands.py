"""The commands of the full screen itself. The screens that they open are loaded with them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rookery.core.folds.points import NOTHING_TO_UNDO, Point, last_change, points
from rookery.core.queries import AskCommands, AskIntents, AskModels, AskModes
from rookery.errors import CommandRejected
from rookery.protocol.client_commands import (
    LineOutcome,
    SlashLines,
    Vocabulary,
    no_such_command,
)
from rookery.tui.interfaces import Controller

if TYPE_CHECKING:
    from textual.app import App

    from rookery.tui.screens.checkpoint_screen import Back

Do = Callable[["App[Any]", Controller, str], Awaitable[None]]
_BEFORE_A_TASK = ("/mode ", "/model ", "/intent ", "/approve ")
"""What can be chosen for the next task."""
NO_TASK = "No session is open. Type a task, or choose a session with /tasks."


class OwnCommand(Struct, frozen=True):
    """`do` is given what was typed behind the name, for which `hint` stands."""

    name: str
    what: str
    do: Do
    hint: str = ""


async def obey(line: str, app: "App[Any]", controller: Controller) -> bool:
    """Do what a line says that begins with a slash. False if it is for the model."""
    name, _, words = line.strip().partition(" ")
    if not name.startswith("/"):
        return False
    if own := _NAMED.get(name.removeprefix("/")):
        await own.do(app, controller, words.strip())
        return True
    try:
        names = {each.name for each in await controller.ask(AskCommands())}
    except CommandRejected as refusal:
        controller.toast(str(refusal), "warning")
        controller.insert(line)
        return True
    if wrong := no_such_command(line, names | set(_NAMED)):
        controller.toast(wrong, "warning")
        controller.insert(line)
    return bool(wrong)


async def _new(app: "App[Any]", controller: Controller, words: str) -> None:
    await controller.new_task()


async def _help(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.info_screens import HelpScreen

    app.push_screen(HelpScreen(controller))


async def _tasks(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.task_list_screen import TaskListScreen

    app.push_screen(TaskListScreen(controller))


async def _mode(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.choice_screens import ModeScreen

    if words:
        await _by_line(controller, f"/mode {words}")
    else:
        app.push_screen(ModeScreen(controller))


async def _model(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.choice_screens import ModelScreen

    if words:
        await _by_line(controller, f"/model {words}")
    else:
        app.push_screen(ModelScreen(controller))


async def _intent(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.choice_screens import IntentScreen

    if words:
        await _by_line(controller, f"/intent {words}")
    else:
        app.push_screen(IntentScreen(controller))


async def _queue(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.choice_screens import QueueScreen

    if words:
        await _by_line(controller, f"/queue {words}")
    else:
        app.push_screen(QueueScreen(controller))


async def _tree(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.tree_screen import TreeScreen

    app.push_screen(TreeScreen(controller))


async def _cost(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.info_screens import CostScreen

    app.push_screen(CostScreen(controller))


async def _checkpoints(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.checkpoint_screen import CheckpointScreen

    if controller.task_id is None:
        controller.toast(NO_TASK, "warning")
    else:
        app.push_screen(CheckpointScreen(controller))


async def _undo(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.checkpoint_screen import Back

    to = last_change(controller.events(controller.task_id)) if controller.task_id else None
    if to is None:
        controller.toast(NOTHING_TO_UNDO, "warning")
    else:
        await _go_back(app, controller, str(to), Back.BOTH)


async def _rewind(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.checkpoint_screen import Back

    await _go_back(app, controller, words, Back.BOTH)


async def _files(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.checkpoint_screen import Back

    await _go_back(app, controller, words, Back.FILES)


async def _go_back(app: "App[Any]", controller: Controller, to: str, back: "Back") -> None:
    """To the point of that number, once it was shown what that means; or to one that is chosen."""
    from rookery.tui.screens.checkpoint_screen import RestoreScreen

    if not to or controller.task_id is None:
        await _checkpoints(app, controller, "")
        return
    known = {point.to: point for point in points(controller.events(controller.task_id))}
    point: Point | None = known.get(int(to)) if to.isdecimal() else None
    if point:
        app.push_screen(RestoreScreen(controller, point, back))
    else:
        controller.toast(f"No such point: {to}. /checkpoints lists all.", "warning")


async def _copy(app: "App[Any]", controller: Controller, words: str) -> None:
    controller.press("copy")


async def _export(app: "App[Any]", controller: Controller, words: str) -> None:
    from rookery.tui.screens.info_screens import export

    if controller.view is None or controller.task_id is None:
        controller.toast(NO_TASK, "warning")
        return
    try:
        path = export(controller.view, controller.task_id, controller.about.workspace, words)
    except OSError as error:
        controller.toast(f"Nothing was written: {error.filename}: {error.strerror}.", "error")
    else:
        controller.toast(f"Written to {path}", "success")


async def _paste(app: "App[Any]", controller: Controller, words: str) -> None:
    controller.press("attach")


async def _theme(app: "App[Any]", controller: Controller, words: str) -> None:
    controller.press("toggle_theme")


async def _quit(app: "App[Any]", controller: Controller, words: str) -> None:
    controller.press("leave")


async def _todos(app: "App[Any]", controller: Controller, words: str) -> None:
    controller.press("todos")


def _line(name: str) -> Do:
    """A command that the clients have in common."""

    async def do(app: "App[Any]", controller: Controller, words: str) -> None:
        await _by_line(controller, f"/{name} {words}")

    return do


async def _by_line(controller: Controller, line: str) -> None:
    if controller.task_id is None and not line.startswith(_BEFORE_A_TASK):
        controller.toast(NO_TASK, "warning")
        return
    try:
        heard = await _heard(controller, controller.task_id or "", line)
    except CommandRejected as refusal:
        controller.toast(str(refusal), "warning")
        return
    if heard and heard.words:
        controller.toast(heard.words)
    for command in heard.commands if heard else ():
        if not await controller.send(command):
            return


async def _heard(controller: Controller, task_id: str, line: str) -> LineOutcome | None:
    modes = [mode.slug for mode in await controller.ask(AskModes())]
    models = [(each.provider, each.model) for each in await controller.ask(AskModels())]
    wants_intent = line.startswith("/intent ")
    intents = await controller.ask(AskIntents()) if wants_intent else ()
    automatic = controller.view.automatic if controller.view else None
    lines = SlashLines(
        task_id,
        vocabulary=Vocabulary(
            modes=modes,
            models=models,
            intents=[(each.id, each.name) for each in intents if not each.problem],
        ),
        automatic=controller.about.automatic if automatic is None else automatic,
    )
    for event in controller.events(task_id):
        lines.show(event)
    for child in controller.views:
        if child != task_id:
            for event in controller.events(child):
                lines.show_of_child(child, event)
    return lines.hear(line)


OWN = (
    OwnCommand("new", "start a new session", _new),
    OwnCommand("help", "all keys and commands", _help),
    OwnCommand("tasks", "earlier sessions: open, search, delete", _tasks),
    OwnCommand("mode", "switch the mode", _mode, "[NAME]"),
    OwnCommand("model", "switch the model", _model, "[[PROVIDER] NAME]"),
    OwnCommand("approve", "turn auto-approve on or off", _line("approve"), "on|off"),
    OwnCommand("undo", "undo the last change to files and the conversation since", _undo),
    OwnCommand("checkpoints", "list the steps and rewind to one", _checkpoints),
    OwnCommand("rewind", "rewind conversation and files", _rewind, "[N]"),
    OwnCommand("files", "restore only the files", _files, "[N]"),
    OwnCommand("intent", "select another intent", _intent, "[ID]"),
    OwnCommand("queue", "queued messages", _queue, "[drop N]"),
    OwnCommand("tree", "sub-tasks", _tree),
    OwnCommand("todos", "to-do list", _todos),
    OwnCommand("cost", "cost of each request", _cost),
    OwnCommand("condense", "summarise the conversation", _line("condense")),
    OwnCommand("bg", "move the running command to the background", _line("bg")),
    OwnCommand("stop", "end the running command", _line("stop")),
    OwnCommand("paste", "attach the image in the clipboard", _paste),
    OwnCommand("copy", "copy the selection or the last answer", _copy),
    OwnCommand("export", "write the conversation to a file", _export, "[FILE]"),
    OwnCommand("theme", "switch between dark and light", _theme),
    OwnCommand("quit", "exit; the session is kept", _quit),
)
_NAMED = {each.name: each for each in OWN} | {"exit": OwnCommand("exit", "leave", _quit)}
