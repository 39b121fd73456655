"""The list of sessions (search, open, delete), and the tree of a session's sub-tasks."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Static

from rookery.core.commands import DeleteTask
from rookery.core.facts import ChildBegan, Event, TaskOpened, ToolStarted
from rookery.core.folds.agent_rows import AgentRow, AgentRows, AgentStatus, agents_in
from rookery.core.folds.view import View
from rookery.core.queries import AskTasks, KnownTask
from rookery.core.text.terminal_text import counted, harmless_line, visible_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.keys import CONFIRM_KEYS, TASK_LIST_KEYS, enter_binding
from rookery.tui.pick_list import ListScreen, PickList, PickScreen, run_latest
from rookery.tui.rows.lines import column, cut, wrapped
from rookery.tui.screens.side_screen import SideScreen
from rookery.tui.short_texts import Status, ago, money, one_line, short_number, state_mark
from rookery.tui.theme import Theme, theme_of

DETAIL_LINES = 2


class TaskListScreen(ListScreen[KnownTask]):
    TITLE_TEXT = "Tasks"
    INVITATION = "Search"
    NOTHING = "No matching session in this workspace."
    OTHER_LINES = 5
    BINDINGS: ClassVar[list[BindingType]] = TASK_LIST_KEYS
    DEFAULT_CSS = """
    TaskListScreen #detail { height: 2; padding: 0 3; color: $muted; }
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._detail = Static(id="detail")

    def parts(self) -> list[Widget]:
        return [*super().parts(), self._detail]

    async def find(self, words: str) -> Sequence[KnownTask]:
        """Sub-tasks are listed only if they match a search."""
        found = await self._controller.ask(AskTasks(words=words))
        return [task for task in found if words.strip() or task.parent is None]

    async def take(self, item: KnownTask) -> None:
        self.dismiss(None)
        await self._controller.open_task(item.task_id)

    def name_of(self, item: KnownTask) -> str:
        return item.task_id

    def draw(self, item: KnownTask, width: int, theme: Theme) -> Text:
        return draw_task(item, width, theme, here=item.task_id == self._controller.task_id)

    def on_pick_list_marked(self, message: PickList.Marked) -> None:
        message.stop()
        self.theme_changed()

    def on_resize(self) -> None:
        super().on_resize()
        self.theme_changed()

    def theme_changed(self) -> None:
        width = min(122, max(20, self.size.width - 10))
        task = self.list.marked
        self._detail.update(task_detail(task, width, theme_of(self)) if task else "")

    def action_delete(self) -> None:
        if task := self.list.marked:
            what = f"“{_title(task)}” and everything stored of it. Your files stay."
            asking = ConfirmScreen(self._controller, "Delete this session?", what)
            self.app.push_screen(asking, lambda yes: self._delete(task, yes=bool(yes)))

    async def _delete(self, task: KnownTask, *, yes: bool) -> None:
        if not yes:
            return
        if task.task_id == self._controller.task_id:
            self._controller.toast("This session is open. Start a new one first (/new).", "warning")
        elif await self._controller.send(DeleteTask(task_id=task.task_id)):
            self._controller.toast("Deleted.", "success")
            self.reload()


def _title(task: KnownTask) -> str:
    return harmless_line(one_line(task.title)) or "(untitled)"


def draw_task(task: KnownTask, width: int, theme: Theme, *, here: bool) -> Text:
    muted = theme.fg(theme.muted)
    when = ago(task.updated, time.time_ns() // 1_000_000)
    tail = Text(f"{money(task.cost):>8}  {when:>10}", muted)
    ink = theme.fg(theme.accent, bold=True) if here else theme.fg(theme.text)
    room = width - tail.cell_len - 4
    title = column(Text(_title(task), ink), room)
    return Text.assemble(state_mark(task.status, theme), " ", title, "  ", tail)


def task_detail(task: KnownTask, width: int, theme: Theme) -> Text:
    """The excerpt that matches the search, or the title; below it status, mode, tokens and id."""
    words = harmless_line(one_line(task.excerpt)) or _title(task)
    lines = wrapped(Text(words, theme.fg(theme.text)), width)
    if len(lines) > DETAIL_LINES - 1:
        lines = [*lines[: DETAIL_LINES - 2], cut(Text(" ").join(lines[DETAIL_LINES - 2 :]), width)]
    tokens = f"↑{short_number(task.tokens_in)} ↓{short_number(task.tokens_out)}"
    facts = [task.status, harmless_line(task.mode), tokens, task.task_id]
    return Text("\n").join([*lines, cut(Text(" · ".join(filter(None, facts))), width)])


class ConfirmScreen(SideScreen[bool]):
    """Only `y` confirms: Enter may have been meant for the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = CONFIRM_KEYS
    DEFAULT_CSS = """
    ConfirmScreen > .frame { width: 64; height: auto; }
    ConfirmScreen Static { height: auto; padding: 1 1 0 1; }
    """

    def __init__(self, controller: Controller, title: str, what: str) -> None:
        super().__init__(controller)
        self._heading = title
        self._what = what

    def parts(self) -> list[Widget]:
        return [Static(Text(visible_line(self._what)))]

    def on_mount(self) -> None:
        super().on_mount()
        self.set_title(self._heading)

    def action_agree(self) -> None:
        self.dismiss(True)

    def action_close(self) -> None:
        self.dismiss(False)


RELOAD_SECONDS = 1.0
MAX_TASKS = 1000
ROOM_FOR_MODE = 90


class Node(Struct, frozen=True):
    """A task in the tree; `branch` is the line drawing before it."""

    task: KnownTask
    status: Status
    branch: str = ""


_AGENT_STATUS: dict[AgentStatus, Status] = {
    "waiting": "open",
    "working": "working",
    "asking": "waiting",
    "done": "completed",
    "failed": "failed",
    "stopped": "closed",
    "out of budget": "failed",
}


def with_agents(nodes: Sequence[Node], agents: AgentRows) -> list[Node]:
    """The nodes of agents with their names, and with what they do now."""
    return [_as_agent(node, agents.find(node.task.task_id)) for node in nodes]


def _as_agent(node: Node, agent: AgentRow | None) -> Node:
    if agent is None:
        return node
    doing = agent.action if agent.runs else ""
    task = replace(node.task, title=f"{agent.name}: {doing or node.task.title}")
    unseen = agent.state == "waiting"  # not followed: perhaps it ended before a crash
    status = node.status if unseen else _AGENT_STATUS[agent.state]
    return replace(node, task=task, status=status)


def tree(root: str, tasks: Mapping[str, KnownTask], views: Mapping[str, View]) -> list[Node]:
    """The task and its descendants, in the order in which they were started."""
    children: dict[str, list[KnownTask]] = {}
    for task in sorted(tasks.values(), key=lambda each: each.created):
        if task.parent and task.parent != task.task_id:
            children.setdefault(task.parent, []).append(task)
    seen: set[str] = set()

    def branch(task: KnownTask, lead: str, below: str) -> Iterator[Node]:
        if task.task_id in seen:
            return
        seen.add(task.task_id)
        view = views.get(task.task_id)
        yield Node(_merge_live(task, view), _status(task, view), lead)
        own = children.get(task.task_id, [])
        for child in own:
            corner, line = ("└ ", "  ") if child is own[-1] else ("├ ", "│ ")
            yield from branch(child, below + corner, below + line)

    return list(branch(tasks[root], "", "")) if root in tasks else []


def root_of(task_id: str, tasks: Mapping[str, KnownTask]) -> str:
    """The topmost ancestor."""
    seen = {task_id}
    while (above := tasks[task_id].parent if task_id in tasks else None) in tasks:
        if above is None or above in seen:
            break
        task_id = above
        seen.add(above)
    return task_id


def _merge_live(task: KnownTask, view: View | None) -> KnownTask:
    """Merge stored and live data: the stored may be out of date, the live may be incomplete."""
    if view is None:
        return task
    used = view.usage
    return replace(
        task,
        cost=max(task.cost or 0.0, used.cost),
        tokens_in=max(task.tokens_in, used.tokens_in),
        tokens_out=max(task.tokens_out, used.tokens_out),
        mode=view.mode or task.mode,
    )


def _status(task: KnownTask, view: View | None) -> Status:
    if view is None or not view.messages:
        return task.status
    if view.closed:
        return "closed" if task.status == "open" else task.status
    if view.open_ask and not view.agent.is_running:
        is_done = view.open_ask.ask == "completion_result" and task.status != "waiting"
        return "completed" if is_done else "waiting"
    return "working" if view.agent.is_running else task.status


def tasks_in_journals(controller: Controller) -> dict[str, KnownTask]:
    """Tasks mentioned in the journals of the followed tasks."""
    found: dict[str, KnownTask] = {}
    for task_id in controller.views:
        for task in _tasks_in(task_id, controller.events(task_id)):
            if task.title or task.task_id not in found:
                found[task.task_id] = task
    return found


def _tasks_in(task_id: str, events: Sequence[Event]) -> Iterator[KnownTask]:
    titles: dict[str, str] = {}
    for event in events:
        match event.fact:
            case TaskOpened(text=text, parent=parent, mode=mode):
                yield KnownTask(
                    task_id=task_id, title=text, parent=parent, mode=mode, created=event.ts
                )
            case ToolStarted(call_id=call_id, title=title, agents=agents):
                titles[call_id] = title
                for agent in agents:
                    yield KnownTask(
                        task_id=agent.task_id,
                        title=agent.text,
                        parent=task_id,
                        mode=agent.mode,
                        created=event.ts,
                    )
            case ChildBegan(call_id=call_id, task_id=child, name=""):
                title = titles.get(call_id, "")
                yield KnownTask(task_id=child, title=title, parent=task_id, created=event.ts)
            case _:
                pass


class TreeScreen(PickScreen[Node]):
    TITLE_TEXT = "Task tree"
    BINDINGS: ClassVar[list[BindingType]] = enter_binding("open")

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.list = PickList[Node](self._draw_node, lambda node: node.task.task_id)

    def parts(self) -> list[Widget]:
        return [self.list]

    def on_mount(self) -> None:
        super().on_mount()
        self._reload()
        self.set_interval(RELOAD_SECONDS, self._reload)

    def _reload(self) -> None:
        run_latest(self, self._show)

    async def _show(self) -> None:
        controller = self._controller
        if controller.task_id is None:
            return
        tasks = tasks_in_journals(controller)
        try:
            stored = await controller.ask(AskTasks(most=MAX_TASKS))
        except CommandRejected as refusal:
            controller.toast(str(refusal), "warning")
            stored = ()
        tasks |= {task.task_id: task for task in stored}
        own = controller.task_id
        others = {each: controller.events(each) for each in controller.views if each != own}
        nodes = with_agents(
            tree(root_of(own, tasks), tasks, controller.views),
            agents_in(controller.events(own), others),
        )
        first = not self.list.items
        self.list.show(nodes)
        if first:
            self.list.mark(controller.task_id)
        cost = sum(node.task.cost or 0.0 for node in nodes)
        self.set_subtitle(f"{counted(len(nodes), 'task')}   {money(cost)}")

    def _draw_node(self, node: Node, width: int, theme: Theme) -> Text:
        return draw_node(node, width, theme, here=node.task.task_id == self._controller.task_id)

    async def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        await self.action_take()

    async def action_take(self) -> None:
        if node := self.list.marked:
            self.dismiss(None)
            await self._controller.open_task(node.task.task_id)


def draw_node(node: Node, width: int, theme: Theme, *, here: bool) -> Text:
    muted, task = theme.fg(theme.muted), node.task
    tokens = f"↑{short_number(task.tokens_in)} ↓{short_number(task.tokens_out)}"
    mode = f"{harmless_line(task.mode):<12}"[:12] + "  " if width >= ROOM_FOR_MODE else ""
    tail = f"{mode}{node.status:<9}  {tokens:>15}  {money(task.cost):>8}"
    ink = theme.fg(theme.accent, bold=True) if here else theme.fg(theme.text)
    head = Text.assemble((node.branch, theme.fg(theme.muted)), state_mark(node.status, theme), " ")
    title = column(Text(_title(task), ink), max(8, width - len(tail) - head.cell_len - 2))
    return Text.assemble(head, title, "  ", (tail, muted))
