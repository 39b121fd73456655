"""Texts of the full screen."""

from collections.abc import Sequence

from rich.text import Text

from rookery.core.asks import AskKind
from rookery.core.facts import Asked, Todo
from rookery.core.folds.view import View
from rookery.core.queries import About
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.pickers import TRIGGERS
from rookery.tui.question_page import APPROVALS
from rookery.tui.theme import Theme

ASKS_FIRST = "I'll ask before changing anything."
AUTO_APPROVES = "Auto-approve is on; every change can be undone."

SUMMARISING = "Summarising the conversation"


def welcome(about: About, theme: Theme) -> Text:
    """Content of the empty page."""
    muted = theme.fg(theme.muted)
    text = Text.assemble(
        ("♜ rookery", theme.fg(theme.accent, bold=True)),
        (f" {about.version}\n\n", muted),
        f"What should I do? {AUTO_APPROVES if about.automatic else ASKS_FIRST}\n",
    )
    for trigger in TRIGGERS:
        text.append(f"\n{trigger.char}", theme.fg(theme.accent, bold=True))
        text.append(f"  {trigger.what}", muted)
    if not about.trusted:
        text.append("\n\nThis folder is not trusted: read-only.", theme.fg(theme.warning))
    return text


def placeholder_text(asked: Asked | None, *, task: bool, is_working: bool) -> str:
    """Placeholder of the input area."""
    if not task:
        return "What should I do?"
    match asked.ask if asked else None:
        case None if is_working:
            return "Type a message; the model gets it at its next step"
        case AskKind.COMPLETION_RESULT:
            return "What next? Or /new"
        case AskKind.RESUME_TASK:
            return "Enter continues; or say what to do instead"
        case AskKind.FOLLOWUP:
            return "Type your answer"
        case AskKind.MISTAKE_LIMIT_REACHED:
            return "A hint for the model"
        case kind if kind in APPROVALS:
            return "No, because …"
        case _:
            return "Say what to do"


def activity_text(view: View | None) -> str:
    """What the agent is doing."""
    if view is None or not view.messages:
        return "Starting"
    last = view.messages[-1]
    match last.say or last.ask:
        case _ if view.silence:
            return harmless_line(view.waiting_for) or "Waiting for the model"
        case "reasoning":
            return "Thinking"
        case "text" | "completion_result" if last.partial:
            return "Answering"
        case "tool" | "use_mcp_server" if last.partial:
            return "Preparing a call"
        case "command" | "command_output":
            return "Running a command"
        case "api_req_retry_delayed":
            return "Waiting to retry"
        case "api_req_rate_limit_wait":
            return "Waiting before the next request"
        case "api_req_started":
            return "Waiting for the model"
        case _:
            return "Working"


def todo_text(todos: Sequence[Todo]) -> str:
    if not todos:
        return ""
    done = sum(todo.status == "completed" for todo in todos)
    now = next((todo.content for todo in todos if todo.status == "in_progress"), "")
    return f"☑ {done}/{len(todos)} {now}".strip()


def notification_text(asked: Asked) -> str:
    """Text of a notification."""
    match asked.ask:
        case AskKind.COMPLETION_RESULT:
            return "The task is done."
        case AskKind.FOLLOWUP:
            return "The model has a question."
        case kind if kind in APPROVALS:
            return f"May it? {asked.title or asked.text}"
        case _:
            return "The task has stopped."
