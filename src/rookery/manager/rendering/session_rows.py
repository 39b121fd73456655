"""Sessions and questions as a page or a command draws them."""

import json

from rookery.core.message import Message
from rookery.manager.rendering.markdown_html import rendered
from rookery.manager.sessions.session_record import Mail
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_summary import Question, Shown
from rookery.manager.shown_rows import InboxRow, MailRow, SessionRow

PROMPT_SHOWN = 500
WORDS_SHOWN = 2_000
LINES_SHOWN, LINE_SHOWN = 50, 500
"""Of a log, and of each of its lines."""
_MARKDOWN = frozenset(
    ("text", "reasoning", "completion_result", "user_feedback", "followup", "condense_context")
)


def session_row(shown: Shown) -> SessionRow:
    record, view = shown.record, shown.view
    worktree = record.parallel_mode
    return SessionRow(
        session_id=record.session_id,
        name=record.name,
        prompt=_beginning(record.prompt, PROMPT_SHOWN),
        state=shown.session.state,
        flags=shown.flags,
        start_time=record.start_time,
        end_time=record.end_time,
        provider=record.provider,
        model=record.model,
        mode=record.mode,
        auto_approve=record.auto_approve if view.automatic is None else view.automatic,
        tokens=record.tokens,
        cost=record.cost,
        todo_stats=record.todo_stats,
        unread=record.unread,
        archived=record.archived,
        queued=shown.queued,
        unresponsive=shown.unresponsive,
        step=shown.step,
        failure=shown.session.failure,
        mail=tuple(_mail_row(mail) for mail in shown.mail if mail.state != "sent"),
        worktree_id=record.worktree_id,
        branch=worktree.branch if worktree else "",
        group_id=record.group_id,
        intent=record.intent,
        workspace=record.workspace,
        logs=tuple(_beginning(line, LINE_SHOWN) for line in record.logs[-LINES_SHOWN:]),
    )


def inbox_row(question: Question) -> InboxRow:
    row = question.row
    words = row.text if question.state is SessionState.COMPLETED else markdown_of(row)
    return InboxRow(
        session_id=question.session_id,
        name=question.name,
        task_id=question.task_id,
        ts=row.ts,
        ask=row.ask or "",
        state=question.state,
        text=row.text or "",
        html=rendered(words) if words else (),
        digest=row.digest,
        title=row.title,
        diff=row.diff,
        where=row.where,
        notes=row.notes,
        rule=row.rule,
        images=len(row.images),
        governance=row.governance,
    )


def markdown_of(row: Message) -> str | None:
    """The Markdown that a row says; None if it says none."""
    if (row.ask or row.say) not in _MARKDOWN:
        return None
    return question_in(row.text) if row.ask == "followup" else row.text


def question_in(text: str | None) -> str | None:
    """What a question says without the answers it offers. While it arrives it has none yet."""
    try:
        said = json.loads(text or "")
    except (ValueError, RecursionError):
        return text
    match said:
        case {"question": str(question)}:
            return question
        case _:
            return text


def _mail_row(mail: Mail) -> MailRow:
    return MailRow(
        number=mail.number,
        text=_beginning(mail.letter.text, WORDS_SHOWN),
        images=len(mail.letter.images),
        state=mail.state,
        retries=mail.retries,
        problem=mail.problem,
    )


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
