"""What answers do to the questions of a task that is driven by a program."""

from rookery.core.asks import CATEGORY, AskCategory, AskKind, Reply

ANSWERED_BY_MESSAGES = frozenset(
    (
        AskKind.FOLLOWUP,
        AskKind.TOOL,
        AskKind.COMMAND,
        AskKind.USE_MCP_SERVER,
        AskKind.BROWSER_ACTION_LAUNCH,
        AskKind.COMPLETION_RESULT,
        AskKind.RESUME_TASK,
        AskKind.RESUME_COMPLETED_TASK,
        AskKind.MISTAKE_LIMIT_REACHED,
    )
)
"""A message that comes while one of these is asked is its answer."""


def goes_on(ask: AskKind, reply: Reply) -> bool:
    """Whether the task works on after such an answer."""
    if reply == "yes":
        return ask is not AskKind.COMPLETION_RESULT
    return reply == "message" or CATEGORY[ask] is AskCategory.INTERACTIVE
