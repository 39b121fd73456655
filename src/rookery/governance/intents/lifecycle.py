"""How an intent goes from one status to another. Only people move one; an agent can ask."""

from msgspec import Struct

from rookery.governance.intents.intent import OPEN, Status


class Move(Struct, frozen=True):
    """One way from a status to another. None among `before` is an intent that is not there yet."""

    command: str
    before: tuple[Status | None, ...]
    after: Status
    needs_scope: bool = False
    needs_dependencies: bool = False
    needs_checks: bool = False
    needs_reason_to_skip: bool = False
    raises_revision: bool = False
    agent_may_ask: bool = False


LIFECYCLE: tuple[Move, ...] = (
    Move("new", (None,), Status.PENDING),
    Move(
        "start",
        (Status.PENDING, Status.PAUSED),
        Status.IN_PROGRESS,
        needs_scope=True,
        needs_dependencies=True,
        agent_may_ask=True,
    ),
    Move("pause", (Status.IN_PROGRESS,), Status.PAUSED),
    Move(
        "close",
        (Status.IN_PROGRESS,),
        Status.COMPLETED,
        needs_checks=True,
        needs_reason_to_skip=True,
        agent_may_ask=True,
    ),
    Move("abandon", OPEN, Status.ABANDONED),
    Move("reopen", (Status.COMPLETED,), Status.IN_PROGRESS, raises_revision=True),
    Move("reopen", (Status.ABANDONED,), Status.PENDING),
)


def move(command: str, status: Status | None) -> Move | None:
    """What the command does to an intent in that status; None if it cannot."""
    fitting = (each for each in LIFECYCLE if each.command == command and status in each.before)
    return next(fitting, None)


def possible_moves(status: Status) -> tuple[str, ...]:
    """The commands that an intent in this status can take."""
    return tuple(each.command for each in LIFECYCLE if status in each.before)


def first_step(command: str, status: Status) -> Move | None:
    """What must be done first so that the command can be given. None if there is no way, or it has
    come already to where the command would lead."""
    wanted = [each for each in LIFECYCLE if each.command == command]
    if any(each.after is status for each in wanted):
        return None
    others = (each for each in possible_moves(status) if each != "abandon")
    steps = [step for each in others if (step := move(each, status))]
    good = {start for each in wanted for start in each.before}
    ends = {each.after for each in wanted}
    for reached in (good, ends):
        if found := next((each for each in steps if each.after in reached), None):
            return found
    return steps[0] if steps else None
