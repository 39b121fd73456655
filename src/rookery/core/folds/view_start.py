"""Where to begin to show the end of a long session, without reading all that came before.

A client that begins there gets the same rows as one that reads everything. So it begins with a
request that finds nothing open: no question, no queued message, no failed attempt. What else a view
has, its usage and its options, follows from facts of few kinds.
"""

from collections.abc import Iterator
from functools import reduce

from msgspec.structs import replace

from rookery.core.event_list import KIND_CODES, CodedEvents, first_events, live
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    AssistantSpoke,
    Condensed,
    Fact,
    IntentCleared,
    IntentSelected,
    ModelSwitched,
    ModeSwitched,
    Noted,
    PromptRefused,
    QueueEdited,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TodosChanged,
    Usage,
    UserSpoke,
)
from rookery.core.folds.run_tallies import Totals, plus
from rookery.core.modes import Level
from rookery.core.queries import ViewStart, ViewState

SHOWN_FIRST = 3_000
"""Events of a long session that are shown before a client asks for the others."""
_LONG = 2 * SHOWN_FIRST

_OPTIONS = (
    *(TaskOpened, TaskReopened, TaskClosed, Rewound, Answered, TodosChanged),
    *(ModeSwitched, ModelSwitched, ApprovalSwitched, IntentSelected, IntentCleared),
)
_CHANGING = {*_OPTIONS, RequestStarted}
_ENDS = (
    *(AssistantSpoke, RequestFailed),
    *(StepCancelled, TaskClosed, TaskReopened, TaskFailed, Rewound),
)
"""What ends a request."""
_UNSETTLING = {RequestFailed, UserSpoke, QueueEdited, Rewound}
_OTHER_COSTS = (Condensed, Noted)
_KINDS = {code: kind for kind, code in KIND_CODES.items()}


def view_start(
    events: CodedEvents, shown: int = SHOWN_FIRST, *, long: int = _LONG, upto: int | None = None
) -> ViewStart:
    """The start for a log, or for its events up to `upto`; the first event if there are fewer
    than `long`."""
    if upto is not None and upto < len(events):
        events = first_events(events, upto)
    if len(events) < long or any(events.places(PromptRefused)):
        return ViewStart()
    place = _place(events, len(events) - shown)
    if not place:
        return ViewStart()
    before = live(first_events(events, place))
    assert isinstance(before, CodedEvents)
    return ViewStart(seq=place, usage=_usage(before), state=_state(before))


def _place(events: CodedEvents, latest: int) -> int:
    """The place of the request to begin with, at most `latest`; 0 if there is none."""
    place = _settled_request(events, latest)
    for rewound in events.newest(Rewound):
        if rewound.seq <= place:
            break
        assert isinstance(rewound.fact, Rewound)
        if rewound.fact.to <= place:
            place = _settled_request(events, rewound.fact.to - 1)
    return place


def _settled_request(events: CodedEvents, latest: int) -> int:
    place = _last(events, RequestStarted, latest + 1)
    while (request := _last(events, RequestStarted, place)) > 0:
        if _is_settled(events.codes[request:place]):
            return place
        place = request
    return 0


def _last(events: CodedEvents, kind: type[Fact], end: int) -> int:
    return events.codes.rfind(KIND_CODES[kind], 0, max(0, end))


def _is_settled(codes: bytes | bytearray) -> bool:
    """Whether a request was answered, and no message was queued since, also not by a rewind."""
    kinds = {kind for kind, code in KIND_CODES.items() if code in codes}
    return AssistantSpoke in kinds and not kinds & _UNSETTLING


def _usage(events: CodedEvents) -> Totals:
    totals = Totals()
    for event in events.read(_paid(events)):
        match event.fact:
            case AssistantSpoke(usage=usage) | RequestFailed(usage=usage):
                totals = plus(totals, usage)
            case Condensed(usage=usage) | Noted(usage=Usage() as usage):
                totals = plus(totals, replace(usage, tokens_in=0, tokens_out=0))
            case _:
                pass
    return totals


def _paid(events: CodedEvents) -> Iterator[int]:
    """The places of facts with a usage that counts. An answer counts only if it was requested."""
    under_way = False
    for place in events.places(RequestStarted, *_ENDS, *_OTHER_COSTS):
        kind = _KINDS[events.codes[place]]
        if kind in _OTHER_COSTS:
            yield place
            continue
        if under_way and kind in (AssistantSpoke, RequestFailed):
            yield place
        under_way = kind is RequestStarted


def _state(events: CodedEvents) -> ViewState:
    """Every request names its model, so only the last one is read."""
    request = _last(events, RequestStarted, len(events))
    places = sorted([request, *events.places(*_OPTIONS)])
    facts = (event.fact for event in events.read(places))
    return reduce(state_with, facts, ViewState())


def state_with(old: ViewState, fact: Fact) -> ViewState:
    """The state after one more fact."""
    if type(fact) not in _CHANGING:
        return old
    match fact:
        case TaskOpened(mode=mode, todos=todos):
            return replace(old, mode=mode, todos=todos)
        case ModeSwitched(mode=mode):
            return replace(old, mode=mode)
        case ModelSwitched(model=model):
            return replace(old, model=model)
        case RequestStarted(model=model, window=window):
            return replace(old, model=model, window=window)
        case ApprovalSwitched(to=level):
            return replace(old, level=level)
        case Answered(level=Level() as level, text=text):
            from rookery.core.plans import plan_steps

            return replace(old, level=level, todos=plan_steps(text) or old.todos)
        case IntentSelected():
            return replace(old, intent=fact)
        case IntentCleared():
            return replace(old, intent=None)
        case TodosChanged(todos=todos):
            return replace(old, todos=todos)
        case TaskClosed():
            return replace(old, closed=True)
        case TaskReopened():
            return replace(old, closed=False, level=None)
        case Rewound():
            return replace(old, closed=False)
        case _:
            return old
