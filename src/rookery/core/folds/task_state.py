"""What the loop needs to know about a task, and how facts change it.

Tokens per byte are learnt from the usage that the provider reports, and the size of the context
window from its messages about too many.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    Ending,
    Governed,
    IntentSelected,
    RequestFailed,
    RequestStarted,
    ScopeGranted,
    Spent,
    StopReason,
    TaskOpened,
    Todo,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.run_tallies import spent_with, spent_without
from rookery.core.instructions import points_somewhere
from rookery.core.limits import Effort
from rookery.core.modes import Level
from rookery.core.tool_traits import DELEGATION

PER_BYTE = 1 / 3.2
"""Used until the provider has reported usage. Code has more tokens than prose."""
LEAST_PER_BYTE, MOST_PER_BYTE = 0.15, 2.0
WORTH_LEARNING = 1_000
"""Requests with fewer bytes say little about tokens per byte."""
REMEMBERED_CALLS = 18
PLANNING = "architect"
"""The mode whose results are plans."""


class TaskState(Struct, frozen=True):
    mode: str = "code"
    chosen: tuple[str, str] = ("", "")
    """The provider and model that the user chose, if not the default ones."""
    effort: Effort | None = None
    """The reasoning effort that the user chose with the model, if not that of the settings."""
    fallback: int = 0
    """How many models of the setting `fallback` were tried since the user's last message."""
    fallback_model: tuple[str, str] = ("", "")
    """The provider and model that took over, if any."""
    level: Level | None = None
    """How far the agent may go without asking; None: as the run was started."""

    pending: tuple[ToolCall, ...] = ()
    """Calls of the last answer without a result."""
    running: ToolStarted | None = None
    answered_calls: int = 0
    endings: frozenset[Ending] = frozenset()
    """How the calls of the last answer ended so far."""
    delegated: bool = False
    """Whether a call of the last answer started a sub-task, or tried to."""
    recent: tuple[str, ...] = ()
    """The latest calls by name and arguments, to detect a loop."""

    stop: StopReason = StopReason.END
    toolless: int = 0
    paused: int = 0
    words: str | None = None
    """The text of an answer without a call, until it is handled."""
    written: str = ""
    """The tool whose call this text contains instead of making it."""
    nudges: int = 0
    """Nudges since the user's last message."""
    called: bool = False
    """Whether a tool was called since the user's last message."""
    mistakes: int = 0
    completion: str | None = None
    proposal: bool = False
    """Whether the completion is a plan for the user's approval."""
    plan: str = ""
    """The last plan that the user accepted."""
    todos: tuple[Todo, ...] = ()

    failure: RequestFailed | None = None
    failures: int = 0
    sent_at: float = 0.0
    """Seconds of work when the request was sent for the first time."""
    cuts: int = 0
    """How often the context was condensed since the last answer."""
    repaired: bool = False

    model: str = ""
    window: int = 0
    """The model's real context window, learnt from a refusal; 0 if unknown."""
    sent: int = 0
    """Bytes of text in the last request."""
    per_byte: float = PER_BYTE
    """Tokens per byte, as the provider counts."""
    known_details: Mapping[str, str] = {}
    """The environment details that the model has, by title; condensing clears them."""

    opened: TaskOpened = TaskOpened(text="")
    parent: str | None = None
    depth: int = 0
    spent: Spent = Spent()
    limit: str = ""
    """The limit that the user is asked about."""
    queue: frozenset[str] = frozenset()
    """Ids of queued messages."""
    unread: tuple[tuple[str, str], ...] = ()
    """Messages with unresolved mentions, with their ids."""
    silent: bool = False
    """Whether the opening message was refused and no other has come."""
    offered: frozenset[str] = frozenset()
    """The answers that the model suggested in its last question."""
    form: bool = False
    """Whether an MCP server asked the last question."""

    governed: Governed | None = None
    """How intents govern the task, if they do."""
    intent: IntentSelected | None = None
    unread_intent: bool = False
    """Whether the model has not answered since it got the intent."""
    distrusted: bool = False
    """Whether a call of the task changed the intent file."""
    grants: tuple[ScopeGranted, ...] = ()
    refused: tuple[str, int] = ("", 0)
    """The call that governance refused last, and how often in a row."""
    checked: bool = False
    """Whether the acceptance criteria were checked since the model's last answer."""
    failed_checks: int = 0
    """How often in a row the work was said to be done and failed its checks."""

    interrupted: bool = False
    over: bool = False
    closed: bool = False

    @property
    def unchecked(self) -> bool:
        """Whether it is offered as complete, and the acceptance criteria were not checked."""
        return self.completion is not None and not (self.checked or self.proposal)

    @property
    def proposed(self) -> str:
        """The plan that waits for the user's approval."""
        return (self.completion or "") if self.proposal else ""


def after_opening(fact: TaskOpened) -> TaskState:
    return TaskState(
        opened=fact,
        mode=fact.mode,
        parent=fact.parent,
        depth=fact.depth,
        spent=fact.spent,
        todos=fact.todos,
        silent=not (fact.text or fact.images),
    )


def after_selecting(state: TaskState, fact: IntentSelected) -> TaskState:
    """Writing may start once the model has read an intent that it selected itself."""
    known = state.intent is not None and state.intent.digest == fact.digest
    unread = fact.by == "model" and (not known or state.unread_intent)
    return replace(state, intent=fact, unread_intent=unread, distrusted=False)


def after_message(state: TaskState, text: str, message_id: str = "") -> TaskState:
    unread = (*state.unread, (message_id, text))
    return replace(state, unread=unread) if points_somewhere(text) else state


def after_sending(state: TaskState, started: RequestStarted) -> TaskState:
    spent, known = state.spent, state.known_details
    seconds = spent.seconds + started.seconds
    state = replace(state, queue=frozenset(), completion=None, failure=None, words=None)
    state = replace(
        state,
        spent=replace(spent, requests=spent.requests + 1, seconds=seconds),
        sent_at=state.sent_at if state.failures else seconds,
        sent=started.size,
        known_details={**known, **started.details} if started.details else known,
    )
    same = started.model == state.model
    return state if same else replace(state, model=started.model, window=0, per_byte=PER_BYTE)


def too_full(state: TaskState, failure: RequestFailed) -> TaskState:
    """Learn the context window from a refusal."""
    said, sent = overflow_in(failure.message), failure.size or state.sent
    per_byte = learnt(state.per_byte, sent, said.used)
    return replace(state, per_byte=per_byte, window=window_after(said, sent * per_byte, state.cuts))


def after_answer(state: TaskState, answer: AssistantSpoke) -> TaskState:
    calls = tuple(block for block in answer.blocks if isinstance(block, ToolCall))
    paused = answer.stop is StopReason.PAUSED
    return replace(
        state,
        pending=calls,
        answered_calls=0,
        endings=frozenset(),
        delegated=False,
        stop=answer.stop,
        toolless=0 if calls else state.toolless + (not paused),
        paused=state.paused + 1 if paused else 0,
        words=None if calls else answer.words,
        written=answer.written,
        called=state.called or bool(calls),
        failures=0,
        cuts=0,
        repaired=False,
        unread_intent=False,
        checked=False,
        per_byte=learnt(state.per_byte, state.sent, answer.usage.tokens_in),
        spent=spent_with(state.spent, answer.usage),
    )


def after_call(state: TaskState, end: ToolFinished) -> TaskState:
    ended = [call for call in state.pending if call.id == end.call_id]
    mistakes = {Ending.DONE: 0, Ending.MISTAKEN: state.mistakes + 1}
    return replace(
        state,
        pending=tuple(call for call in state.pending if call.id != end.call_id),
        running=None,
        answered_calls=state.answered_calls + len(ended),
        endings=state.endings | {end.ending},
        delegated=state.delegated or any(call.name == DELEGATION for call in ended),
        recent=(*state.recent, *(call.key for call in ended))[-REMEMBERED_CALLS:],
        mistakes=mistakes.get(end.ending, state.mistakes),
        spent=end.spent or state.spent,
        refused=_refused(state, ended, end),
    )


def _refused(state: TaskState, ended: Sequence[ToolCall], end: ToolFinished) -> tuple[str, int]:
    """Other calls in between do not reset the count of the same refusal."""
    if not end.refusal or not ended:
        return state.refused
    last, times = state.refused
    return ended[0].key, times + 1 if ended[0].key == last else 1


def new_turn(state: TaskState) -> TaskState:
    return replace(from_first_model(state), nudges=0, called=False, recent=())


def from_first_model(state: TaskState) -> TaskState:
    return with_model(state, 0, ("", "")) if state.fallback else state


def with_model(state: TaskState, place: int, fallback_model: tuple[str, str]) -> TaskState:
    """Switch to another model and drop what was measured for the last one."""
    state = replace(state, fallback=place, fallback_model=fallback_model, failure=None, failures=0)
    return replace(state, window=0, per_byte=PER_BYTE)


def after_reply(state: TaskState, answer: Answered) -> TaskState:
    if answer.level:
        return _with_plan(state, answer)
    if CATEGORY[answer.ask] is AskCategory.NON_BLOCKING:
        return _redirected(state) if answer.reply == "message" else state
    if CATEGORY[answer.ask] is AskCategory.INTERACTIVE:
        return state
    if (answer.ask, answer.reply) == (AskKind.COMPLETION_RESULT, "yes"):
        accepted = (state.mode == PLANNING or state.proposal) and state.completion
        return replace(state, over=True, plan=accepted or state.plan)
    if answer.reply == "no":
        return replace(state, over=True)
    state = replace(state, failure=None, failures=0)
    match answer.ask:
        case AskKind.COMPLETION_RESULT:
            return replace(state, completion=None, words=None)
        case AskKind.API_REQ_FAILED | AskKind.INVALID_MODEL:
            return replace(from_first_model(state), words=None)
        case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
            state = replace(state, interrupted=False)
            return _redirected(state) if answer.reply == "message" else state
        case AskKind.MISTAKE_LIMIT_REACHED:
            state = replace(state, mistakes=0, recent=(), refused=("", 0))
            return _redirected(state) if answer.reply == "message" else state
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return replace(state, spent=spent_without(state.spent, state.limit))
        case _:
            return state


def _redirected(state: TaskState) -> TaskState:
    """A new message drops pending calls; a started one still has to be settled."""
    begun = state.running.call_id if state.running else None
    kept = tuple(call for call in state.pending if call.id == begun)
    return replace(state, pending=kept, completion=None, words=None)


def _with_plan(state: TaskState, answer: Answered) -> TaskState:
    """The user approved a plan: its steps are the to-do list."""
    from rookery.core.plans import plan_steps

    state = replace(state, completion=None, words=None, proposal=False, failure=None, failures=0)
    steps = plan_steps(answer.text) or state.todos
    return replace(state, plan=answer.text, level=answer.level, todos=steps)


# ── tokens ────────────────────────────────────────────────────────────────────────────────────

SMALLEST_WINDOW = 1_000
"""No model has a smaller context window, so a smaller number means something else."""
GUESSES = (0.6, 0.3, 0.1)
"""Share of a refused request that is assumed to fit, at the first and later refusals."""
SMALLEST_GUESS = 4_000
"""Tools and rules alone need almost this much and cannot be cut."""

_NUMBER = r"(\d[\d,_.]{0,11}\d|\d)"
# compiled when they are first used: there are many, and few runs need them
_LIMITS = (
    rf"maximum context length (?:is|of) {_NUMBER}",
    rf"> {_NUMBER} maximum",
    rf"exceeds? [a-z ]{{0,40}}(?:limit|size|window|length)\D{{0,20}}{_NUMBER}",
    rf"maximum number of tokens allowed \(?{_NUMBER}",
    rf"(?:available )?context size \(?{_NUMBER}",
    rf"maximum (?:allowed )?input length (?:of |is )?{_NUMBER}",
    rf"n_ctx\D{{0,6}}{_NUMBER}",
    rf"limit (?:is|of) {_NUMBER}",
)
_USED = (
    rf"{_NUMBER} in the messages",
    rf"resulted in {_NUMBER} tokens",
    rf"(?:you )?requested (?:about )?{_NUMBER} tokens",
    rf"{_NUMBER} tokens > ",
    rf"input token count \(?{_NUMBER}",
    rf"request \(?{_NUMBER} tokens",
    rf"n_prompt_tokens\D{{0,6}}{_NUMBER}",
    rf"your (?:input|prompt|messages?) (?:has|is|contains?) {_NUMBER}",
)


def learnt(per_byte: float, size: int, tokens: int) -> float:
    """Tokens per byte after learning that `size` bytes were `tokens` tokens."""
    if size < WORTH_LEARNING or tokens <= 0:
        return per_byte
    return min(max(tokens / size, LEAST_PER_BYTE), MOST_PER_BYTE)


class Overflow(Struct, frozen=True):
    """Tokens that fit and tokens that were sent; 0 if not reported."""

    limit: int = 0
    used: int = 0


def overflow_in(message: str) -> Overflow:
    return Overflow(_first(_LIMITS, message), _first(_USED, message))


def window_after(said: Overflow, sent: float, cuts: int) -> int:
    """The context window after a refusal of `sent` tokens: the provider's number, or a guess."""
    if said.limit >= SMALLEST_WINDOW:
        return said.limit
    return max(int(sent * GUESSES[min(cuts, len(GUESSES) - 1)]), SMALLEST_GUESS)


def _first(patterns: tuple[str, ...], message: str) -> int:
    for pattern in patterns:
        if found := re.search(pattern, message[:4096], re.IGNORECASE):
            return int(re.sub(r"\D", "", found[1]))
    return 0
