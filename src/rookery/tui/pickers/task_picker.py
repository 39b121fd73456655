"""Tasks of this workspace, behind `#`."""

import time
from collections.abc import Sequence
from functools import partial

from rookery.core.queries import AskTasks, KnownTask
from rookery.tui.interfaces import Choice
from rookery.tui.pickers.picker import Picker
from rookery.tui.screens.short_texts import ago, one_line


class HistoryPicker(Picker):
    """Those that hold all of the words, newest first. Picking one opens it."""

    PAUSE = 0.1
    MOST = 15
    NOTHING = "No task holds these words."

    async def candidates(self, text: str) -> Sequence[Choice]:
        found = await self._desk.ask(AskTasks(words=text.strip(), most=4 * self.MOST))
        now = time.time_ns() // 1_000_000
        own = [task for task in found if task.parent is None]
        return [self._choice(task, now) for task in own[: self.MOST]]

    def _choice(self, task: KnownTask, now: int) -> Choice:
        title = one_line(task.title) or "(untitled)"
        about = [ago(task.updated, now), task.status, one_line(task.excerpt)]
        return Choice(
            label=title,
            detail=" · ".join(filter(None, about)),
            action=partial(self._desk.open_task, task.task_id),
        )
