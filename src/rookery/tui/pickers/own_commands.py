"""The slash commands of the full screen.

Screens are imported inside the commands that open them, to keep the start fast.
"""

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

    from rookery.tui.screens.checkpoint_screen import Extent

Do = Callable[["App[Any]", Controller, str], Awaitable[None]]
_WITHOUT_SESSION = ("/mode ", "/model ", "/intent ", "/approve ")
"""Commands that also work before a session exists: they set the options of the next one."""
NO_TASK = "No session is open. Type a task, or choose a session with /tasks."


class ScreenCommand(Struct, frozen=True):
    """A slash command. `do` receives the arguments, which `hint` describes in the help."""

    name: str
    what: str
    do: Do
    hint: str = ""


async def run_command(line: str, app: "App[Any]", controller: Controller) -> bool:
    """Run a line that starts with a slash. Returns False if it is for the model."""
    name, _, args = line.strip().partition(" ")
    if not name.startswith("/"):
        return False
    if own := _BY_NAME.get(name.removeprefix("/")):
        await own.do(app, controller, args.strip())
        return True
    try:
        names = {each.name for each in await controller.ask(AskCommands())}
    except CommandRejected as refusal:
        controller.toast(str(refusal), "warning")
        controller.insert(line)
        return True
    if wrong := no_such_command(line, names | set(_BY_NAME)):
        controller.toast(wrong, "warning")
        controller.insert(line)
    return bool(wrong)


async def _new(app: "App[Any]", controller: Controller, args: str) -> None:
    await controller.new_task()


async def _help(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.info_screens import HelpScreen

    app.push_screen(HelpScreen(controller))


async def _tasks(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.task_list_screen import TaskListScreen

    app.push_screen(TaskListScreen(controller))


async def _mode(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.choice_screens import ModeScreen

    if args:
        await _run_line(controller, f"/mode {args}")
    else:
        app.push_screen(ModeScreen(controller))


async def _model(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.choice_screens import ModelScreen

    if args:
        await _run_line(controller, f"/model {args}")
    else:
        app.push_screen(ModelScreen(controller))


async def _intent(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.choice_screens import IntentScreen

    if args:
        await _run_line(controller, f"/intent {args}")
    else:
        app.push_screen(IntentScreen(controller))


async def _queue(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.choice_screens import QueueScreen

    if args:
        await _run_line(controller, f"/queue {args}")
    else:
        app.push_screen(QueueScreen(controller))


async def _tree(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.tree_screen import TreeScreen

    app.push_screen(TreeScreen(controller))


async def _cost(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.info_screens import CostScreen

    app.push_screen(CostScreen(controller))


async def _checkpoints(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.checkpoint_screen import CheckpointScreen

    if controller.task_id is None:
        controller.toast(NO_TASK, "warning")
    else:
        app.push_screen(CheckpointScreen(controller))


async def _undo(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.checkpoint_screen import Extent

    to = last_change(controller.events(controller.task_id)) if controller.task_id else None
    if to is None:
        controller.toast(NOTHING_TO_UNDO, "warning")
    else:
        await _go_back(app, controller, str(to), Extent.BOTH)


async def _rewind(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.checkpoint_screen import Extent

    await _go_back(app, controller, args, Extent.BOTH)


async def _files(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.checkpoint_screen import Extent

    await _go_back(app, controller, args, Extent.FILES)


async def _go_back(app: "App[Any]", controller: Controller, to: str, back: "Extent") -> None:
    """Ask to rewind to a point; without a valid number, show the list of points or a warning."""
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


async def _copy(app: "App[Any]", controller: Controller, args: str) -> None:
    controller.press("copy")


async def _export(app: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.info_screens import export

    if controller.view is None or controller.task_id is None:
        controller.toast(NO_TASK, "warning")
        return
    try:
        path = export(controller.view, controller.task_id, controller.about.workspace, args)
    except OSError as error:
        controller.toast(f"Nothing was written: {error.filename}: {error.strerror}.", "error")
    else:
        controller.toast(f"Written to {path}", "success")


async def _paste(app: "App[Any]", controller: Controller, args: str) -> None:
    controller.press("attach")


async def _theme(app: "App[Any]", controller: Controller, args: str) -> None:
    controller.press("toggle_theme")


async def _quit(app: "App[Any]", controller: Controller, args: str) -> None:
    controller.press("leave")


async def _todos(app: "App[Any]", controller: Controller, args: str) -> None:
    controller.press("todos")


def _shared_command(name: str) -> Do:
    """A command shared by all clients, handled by `SlashLines`."""

    async def do(app: "App[Any]", controller: Controller, args: str) -> None:
        await _run_line(controller, f"/{name} {args}")

    return do


async def _run_line(controller: Controller, line: str) -> None:
    if controller.task_id is None and not line.startswith(_WITHOUT_SESSION):
        controller.toast(NO_TASK, "warning")
        return
    try:
        outcome = await _handle(controller, controller.task_id or "", line)
    except CommandRejected as refusal:
        controller.toast(str(refusal), "warning")
        return
    if outcome and outcome.words:
        controller.toast(outcome.words)
    for command in outcome.commands if outcome else ():
        if not await controller.send(command):
            return


async def _handle(controller: Controller, task_id: str, line: str) -> LineOutcome | None:
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
    return lines.handle(line)


COMMANDS = (
    ScreenCommand("new", "start a new session", _new),
    ScreenCommand("help", "all keys and commands", _help),
    ScreenCommand("tasks", "earlier sessions: open, search, delete", _tasks),
    ScreenCommand("mode", "switch the mode", _mode, "[NAME]"),
    ScreenCommand("model", "switch the model", _model, "[[PROVIDER] NAME]"),
    ScreenCommand("approve", "turn auto-approve on or off", _shared_command("approve"), "on|off"),
    ScreenCommand("undo", "undo the last change to files and the conversation since", _undo),
    ScreenCommand("checkpoints", "list the steps and rewind to one", _checkpoints),
    ScreenCommand("rewind", "rewind conversation and files", _rewind, "[N]"),
    ScreenCommand("files", "restore only the files", _files, "[N]"),
    ScreenCommand("intent", "select another intent", _intent, "[ID]"),
    ScreenCommand("queue", "queued messages", _queue, "[drop N]"),
    ScreenCommand("tree", "sub-tasks", _tree),
    ScreenCommand("todos", "to-do list", _todos),
    ScreenCommand("cost", "cost of each request", _cost),
    ScreenCommand("condense", "summarise the conversation", _shared_command("condense")),
    ScreenCommand("bg", "move the running command to the background", _shared_command("bg")),
    ScreenCommand("stop", "end the running command", _shared_command("stop")),
    ScreenCommand("paste", "attach the image in the clipboard", _paste),
    ScreenCommand("copy", "copy the selection or the last answer", _copy),
    ScreenCommand("export", "write the conversation to a file", _export, "[FILE]"),
    ScreenCommand("theme", "switch between dark and light", _theme),
    ScreenCommand("quit", "exit; the session is kept", _quit),
)
_BY_NAME = {each.name: each for each in COMMANDS} | {"exit": ScreenCommand("exit", "leave", _quit)}
