"""The slash commands of the full screen.

Screens are imported when a command opens them, to keep the start fast.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rookery.core.facts import Event
from rookery.core.folds.points import NOTHING_TO_UNDO, last_change, points
from rookery.core.queries import AskCommands, AskIntents, AskModels, AskModes
from rookery.errors import CommandRejected
from rookery.protocol.client_commands import LineOutcome, SlashLines, Vocabulary, no_such_command
from rookery.protocol.slash_words import ALIASES
from rookery.tui.interfaces import Controller

if TYPE_CHECKING:
    from textual.app import App

Do = Callable[["App[Any]", Controller, str], Awaitable[None]]
_WITHOUT_SESSION = ("/mode ", "/model ", "/intent ", "/approve ", "/permissions ", "/config ")
"""Commands that also work before a session exists: they set the options of the next one."""
NO_TASK = "No session is open. Type a task, or choose a session with /tasks."


class ScreenCommand(Struct, frozen=True):
    """A slash command. It runs an action of the app (`press`), calls `do`, or opens a screen;
    else, or with arguments for a screen, it is a line that all clients share. `hint` describes
    the arguments in the help."""

    name: str
    what: str
    hint: str = ""
    press: str = ""
    do: Do | None = None
    screen: str = ""
    """Module and class in `rookery.tui.screens`."""
    whole: bool = False
    """Needs an open session, and all its events."""

    async def run(self, app: "App[Any]", controller: Controller, args: str = "") -> None:
        if self.whole and controller.task_id is None:
            controller.toast(NO_TASK, "warning")
        elif self.whole and controller.misses_events:
            app.run_worker(self._run_when_read(app, controller, args))
        else:
            await self._run(app, controller, args)

    async def _run_when_read(self, app: "App[Any]", controller: Controller, args: str) -> None:
        task_id = controller.task_id
        if await controller.read_past() and controller.task_id == task_id:
            await self._run(app, controller, args)

    async def _run(self, app: "App[Any]", controller: Controller, args: str) -> None:
        if self.press:
            controller.press(f"{self.press}({args!r})" if self.hint else self.press)
        elif self.do:
            await self.do(app, controller, args)
        elif self.screen and not (args and self.hint):
            app.push_screen(_screen(self.screen)(controller))
        else:
            await _run_line(controller, f"/{self.name} {args}")


def _screen(name: str) -> Any:
    module, _, kind = name.partition(".")
    return getattr(import_module(f"rookery.tui.screens.{module}"), kind)


async def run_command(line: str, app: "App[Any]", controller: Controller) -> bool:
    """Run a line that starts with a slash. Returns False if it is for the model."""
    name, _, args = line.strip().partition(" ")
    if not name.startswith("/"):
        return False
    bare = name.removeprefix("/")
    if own := _BY_NAME.get(bare):
        await own.run(app, controller, args.strip())
        return True
    try:
        names = {each.name for each in await controller.ask(AskCommands())}
    except CommandRejected as refusal:
        controller.toast(str(refusal), "warning")
        controller.insert(line)
        return True
    if bare not in names and bare in ALIASES:
        await _BY_NAME[ALIASES[bare]].run(app, controller, args.strip())
        return True
    if bare in {mode.slug for mode in await controller.ask(AskModes())} - names:
        await _run_line(controller, f"/mode {bare}")
        controller.insert(args)
        return True
    if wrong := no_such_command(line, names | set(_BY_NAME), "Type / to list all."):
        controller.toast(wrong, "warning")
        controller.insert(line)
    return bool(wrong)


async def _new(_: "App[Any]", controller: Controller, __: str) -> None:
    await controller.new_task()


async def _undo(app: "App[Any]", controller: Controller, _: str) -> None:
    to = last_change(_events(controller))
    if to is None:
        controller.toast(NOTHING_TO_UNDO, "warning")
    else:
        await _go_back("BOTH", app, controller, str(to))


async def _go_back(extent: str, app: "App[Any]", controller: Controller, to: str) -> None:
    """Ask to rewind to a point; without a valid number, show the list of points or a warning."""
    from rookery.protocol.rewind_text import Extent
    from rookery.tui.screens.checkpoint_screen import RestoreScreen

    if not to:
        await _BY_NAME["checkpoints"].run(app, controller)
        return
    known = {point.to: point for point in points(_events(controller))}
    point = known.get(int(to)) if to.isdecimal() else None
    if point:
        app.push_screen(RestoreScreen(controller, point, Extent[extent]))
    else:
        controller.toast(f"No such point: {to}. /checkpoints lists all.", "warning")


def _events(controller: Controller) -> Sequence[Event]:
    return controller.events(controller.task_id) if controller.task_id else ()


async def _export(_: "App[Any]", controller: Controller, args: str) -> None:
    from rookery.tui.screens.info_screens import export

    assert controller.view
    assert controller.task_id
    try:
        path = export(controller.view, controller.task_id, controller.about.workspace, args)
    except OSError as error:
        controller.toast(f"Nothing was written: {error.filename}: {error.strerror}.", "error")
    else:
        controller.toast(f"Written to {path}", "success")


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
    wants_intent = line.startswith("/intent ")
    intents = await controller.ask(AskIntents()) if wants_intent else ()
    level = controller.view.level if controller.view else None
    lines = SlashLines(
        task_id,
        vocabulary=Vocabulary(
            modes=[mode.slug for mode in await controller.ask(AskModes())],
            models=[(each.provider, each.model) for each in await controller.ask(AskModels())],
            intents=[(each.id, each.name) for each in intents if not each.problem],
        ),
        level=level or controller.about.level,
    )
    lines.start = controller.start
    for event in controller.events(task_id):
        lines.show(event)
    for child in controller.views:
        if child != task_id:
            for event in controller.events(child):
                lines.show(event, child)
    return lines.handle(line)


COMMANDS = (
    ScreenCommand("new", "start a new session", do=_new),
    ScreenCommand("help", "all keys and commands", screen="info_screens.HelpScreen"),
    ScreenCommand(
        "tasks", "earlier sessions: open, search, delete", screen="task_screens.TaskListScreen"
    ),
    ScreenCommand("mode", "switch the mode", "[NAME]", screen="choice_screens.ModeScreen"),
    ScreenCommand(
        "model", "switch the model", "[[PROVIDER] NAME]", screen="choice_screens.ModelScreen"
    ),
    ScreenCommand("approve", "act without asking, or ask again", "on|off"),
    ScreenCommand(
        "undo", "undo the last change to files and the conversation since", do=_undo, whole=True
    ),
    ScreenCommand(
        "checkpoints",
        "list the steps and rewind to one",
        screen="checkpoint_screen.CheckpointScreen",
        whole=True,
    ),
    ScreenCommand(
        "rewind", "rewind conversation and files", "[N]", do=partial(_go_back, "BOTH"), whole=True
    ),
    ScreenCommand(
        "files", "restore only the files", "[N]", do=partial(_go_back, "FILES"), whole=True
    ),
    ScreenCommand(
        "permissions",
        "level and rules: what happens without asking",
        "[LEVEL | remove ID]",
        screen="setting_screens.PermissionScreen",
    ),
    ScreenCommand("intent", "select another intent", "[ID]", screen="choice_screens.IntentScreen"),
    ScreenCommand("queue", "queued messages", "[drop N]", screen="choice_screens.QueueScreen"),
    ScreenCommand("tree", "sub-tasks and agents", screen="task_screens.TreeScreen", whole=True),
    ScreenCommand("find", "search in the conversation", "[WORDS]", press="find"),
    ScreenCommand("todos", "to-do list", press="todos"),
    ScreenCommand("cost", "cost of each request", screen="info_screens.CostScreen", whole=True),
    ScreenCommand(
        "diff", "what this session changed", screen="checkpoint_screen.ChangesScreen", whole=True
    ),
    ScreenCommand(
        "context", "how the context window is used", screen="setting_screens.ContextScreen"
    ),
    ScreenCommand("memory", "rule files in use; edit one", screen="setting_screens.MemoryScreen"),
    ScreenCommand("condense", "summarise the conversation"),
    ScreenCommand("bg", "move the running command to the background"),
    ScreenCommand("stop", "end the running command, or an agent", "[AGENT]", whole=True),
    ScreenCommand("paste", "attach the image in the clipboard", press="attach"),
    ScreenCommand("copy", "copy the selection or the last answer", press="copy"),
    ScreenCommand("export", "write the conversation to a file", "[FILE]", do=_export, whole=True),
    ScreenCommand("theme", "list the themes and use one", "[NAME]", press="choose_theme"),
    ScreenCommand("config", "model, mode and where settings are"),
    ScreenCommand("editor", "write the message in your own editor", press="edit_draft"),
    ScreenCommand("login", "store a provider's key, or sign in", "[PROVIDER]", press="sign_in"),
    ScreenCommand("vim", "turn vim keys in the input on or off", press="toggle_vim"),
    ScreenCommand("quit", "exit; the session is kept", press="leave"),
)
_BY_NAME = {each.name: each for each in COMMANDS}
