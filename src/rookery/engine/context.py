"""What a task's model is sent, kept within what the model can take.

Nothing is ever deleted: a `Condensed` fact says what is left out from then on. A summary by the
model is tried first; leaving things out needs nobody, so that it cannot fail. A cut is tried on
the conversation itself before it is believed: what counts is the weight of what would be sent.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

import anyio.lowlevel
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import SHORTEST, Text
from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    Condensing,
    Event,
    Noted,
    RequestFailed,
    RequestStarted,
    StopReason,
    Usage,
    live,
    next_event,
)
from rookery.core.folds.history import Conversation, Turn, history
from rookery.core.folds.task_state import fold
from rookery.core.limits import FailureKind
from rookery.core.replies import (
    CONDENSED,
    LEFT_OUT,
    NOT_SUMMARISED,
    NOTHING_TO_CONDENSE,
    SUMMARISE,
    SUMMARISED,
)
from rookery.core.tokens import Scale, TokenRoom, room, text_weight, weight
from rookery.engine.event_log import EventLog
from rookery.engine.model_turn import Turnstile
from rookery.engine.ports.model import (
    ModelRequest,
    Provider,
    StopChunk,
    TextChunk,
    ToolSpec,
    UsageChunk,
)
from rookery.errors import ProviderError

Trigger: TypeAlias = Literal["auto", "manual"]
"""Who wants the conversation condensed: the engine, because it is full, or the user."""
KEPT = 0.3
"""The part of the room that the newest turns keep when the older ones are summarised."""
LEFT = 0.6
"""The part of the room that is used after leaving things out: or it would be full at once."""
SUMMARY_TOKENS = 4_096

LENGTHS = (0, 24_000, 8_000, 2_000, 600, SHORTEST)
"""How much of a single text is kept, tried in this order; 0 is all of it."""


class Equipment(Struct, frozen=True):
    """What a task works with in one mode: whom it asks, and what it is told beforehand."""

    provider: Provider
    system: str
    specs: Sequence[ToolSpec]


class Context:
    def __init__(
        self,
        log: EventLog,
        equip: Callable[[], Awaitable[Equipment]],
        now: Callable[[], Awaitable[str]],
        cache_key: str,
        *,
        before_cut: Callable[[Trigger], Awaitable[str]] | None = None,
        after_cut: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
        turnstile: Turnstile | None = None,
    ) -> None:
        """`before_cut` says why nothing may be left out, if so. `after_cut` says again what must
        not be among what is left out. A summary is a request of its own and goes through the
        `turnstile`."""
        self._before_cut = before_cut
        self._after_cut = after_cut
        self._turnstile = turnstile or Turnstile()
        self._log = log
        self._equip = equip
        self._now = now
        self._cache_key = cache_key
        self._conversation = Conversation()
        self._scale = Scale()
        self.size = 0
        """Of the last request, in bytes of text."""

    async def request(self) -> tuple[Provider, ModelRequest] | None:
        """The next request, and whom to send it to. What does not fit is condensed first; None if
        that turned out to need another look at what to do next."""
        gear = await self._equip()
        now = await self._now()
        # from here on nothing is awaited, or words of the user would count as heard
        request = replace(self._request(gear), now=now)
        self.size = size(request, self._scale.weight)
        if self._tokens(self.size) > self._room(gear).request:
            await self.condense("auto", beside=text_weight(request.now))
            if self._log.state.failure or self._log.state.interrupted:
                return None
            await self._turnstile.wait()
            request = replace(self._request(gear), now=now)
            self.size = size(request, self._scale.weight)
        return gear.provider, request

    async def condense(self, trigger: Trigger = "manual", *, beside: int = 0) -> None:
        """Have the older part summarised; if that does not help, leave it out. `beside` it so many
        bytes more are sent."""
        if await self._kept_whole(trigger):
            return
        gear = await self._equip()
        before, most = self._measures(gear)
        most = max(most - beside, 0)
        self._log.append(Condensing(tokens=self._tokens(before)))
        cut = await self._fitting(int(min(most, before) * KEPT))
        summary = _Summary()
        if cut.upto:
            await self._turnstile.wait()
            request = self._asking_for_summary(gear)
            self._turnstile.sent()
            summary = await _summary(gear.provider, request)
            if summary.too_long:
                self._log.append(summary.too_long)
                return
        cut = replace(cut, summary=summary.text, usage=summary.usage)
        if summary.text and weight_after(self._log.events, cut) < min(before, most):
            self._append(gear, cut, SUMMARISED)
            await self._after_cut()
            return
        why = "the summary was too long" if summary.text else summary.problem
        how = NOT_SUMMARISED.format(why=why) if why else LEFT_OUT
        if not await self._leave_out(gear, how, summary.usage):
            self._charge(summary.usage)
            self._log.append(Noted(text=NOTHING_TO_CONDENSE))

    async def leave_out(self) -> bool:
        """Without asking the model: it has just refused. False if nothing can be left out."""
        if await self._kept_whole("auto"):
            return False
        return await self._leave_out(await self._equip(), LEFT_OUT, Usage())

    async def _kept_whole(self, trigger: Trigger) -> bool:
        reason = await self._before_cut(trigger) if self._before_cut else ""
        if reason:
            self._log.append(Noted(text=f"Nothing was condensed: a hook refused it. {reason}"))
        return bool(reason)

    async def _leave_out(self, gear: Equipment, how: str, usage: Usage) -> bool:
        before, most = self._measures(gear)
        cut = await self._fitting(int(min(most * LEFT, before * LEFT)))
        if weight_after(self._log.events, cut) >= before:
            return False
        self._append(gear, replace(cut, usage=usage), how)
        await self._after_cut()
        return True

    def _charge(self, usage: Usage) -> None:
        """A summary that helped nothing was paid for all the same. It is put down to the request
        before it, as an answer of which nothing is ever sent."""
        if usage == Usage():
            return
        facts = (event.fact for event in reversed(self._log.events))
        last = next((fact.request_id for fact in facts if isinstance(fact, RequestStarted)), "")
        unused = AssistantSpoke(request_id=last, blocks=(), usage=usage, interrupted=True)
        self._log.append(unused)

    async def _fitting(self, most: int) -> Condensed:
        """Beside everything else: in a very long log it takes seconds."""
        return await anyio.to_thread.run_sync(fitting, list(self._log.events), most)

    def _append(self, gear: Equipment, cut: Condensed, how: str) -> None:
        fixed = self._rest(gear)
        before = self._tokens(fixed + weight(history(self._log.events)))
        after = self._tokens(fixed + weight_after(self._log.events, cut))
        self._log.append(replace(cut, tokens_before=before, tokens_after=after))
        self._log.append(Noted(text=CONDENSED.format(before=before, after=after, how=how)))

    def _measures(self, gear: Equipment) -> tuple[int, int]:
        """What the conversation weighs now, and what it may weigh."""
        spare = self._room(gear).request / self._log.state.per_byte - self._rest(gear)
        return weight(history(self._log.events)), max(int(spare), 0)

    def _rest(self, gear: Equipment) -> int:
        """Bytes of all but the conversation."""
        return text_weight(gear.system) + sum(map(_spec_size, gear.specs))

    def _room(self, gear: Equipment) -> TokenRoom:
        model = gear.provider.model
        return room(self._log.state.window or model.window, model.max_output)

    def _tokens(self, size: int) -> int:
        return int(size * self._log.state.per_byte)

    def _request(self, gear: Equipment) -> ModelRequest:
        return ModelRequest(
            system=gear.system,
            turns=self._conversation.turns(self._log.events),
            tools=gear.specs,
            max_output=self._room(gear).answer,
            cache_key=self._cache_key,
        )

    def _asking_for_summary(self, gear: Equipment) -> ModelRequest:
        """The conversation as it would be sent, so that what a provider has cached of it helps;
        less of it if it is too much even for that."""
        request = self._request(gear)
        limits = self._room(gear)
        most = limits.window - limits.answer
        if self._tokens(size(request)) > most:
            spare = int(most / self._log.state.per_byte) - self._rest(gear)
            request = replace(request, turns=self._turns_within(max(spare, 0)))
        return replace(
            request,
            turns=_with_last_word(request.turns, SUMMARISE),
            max_output=min(limits.answer, SUMMARY_TOKENS),
        )

    def _turns_within(self, most: int) -> list[Turn]:
        events = self._log.events
        cut = replace(events[-1], seq=events[-1].seq + 1, fact=fitting(events, most))
        return history([*events, cut])


def size(request: ModelRequest, weigh: Callable[[Sequence[Turn]], int] = weight) -> int:
    """Bytes of text in a request."""
    texts = text_weight(request.system) + text_weight(request.now)
    return weigh(request.turns) + texts + sum(map(_spec_size, request.tools))


def _spec_size(spec: ToolSpec) -> int:
    return len(spec.name) + text_weight(spec.description) + len(str(spec.schema))


def _with_last_word(turns: Sequence[Turn], text: str) -> list[Turn]:
    *before, last = turns
    if last.role == "assistant":
        return [*turns, Turn("user", (Text(text=text),))]
    return [*before, Turn("user", (*last.blocks, Text(text=text)))]


class _Summary(Struct, frozen=True):
    text: str = ""
    problem: str = ""
    usage: Usage = Usage()
    too_long: RequestFailed | None = None
    """The window is smaller than was believed."""


async def _summary(provider: Provider, request: ModelRequest) -> _Summary:
    """What the model says of the conversation, or why that is of no use."""
    pieces: list[str] = []
    usage = Usage()
    stop: StopReason | None = None
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk(text):
                        pieces.append(text)
                    case UsageChunk(so_far):
                        usage = so_far
                    case StopChunk(reason):
                        stop = reason
                    case _:
                        pass
    except ProviderError as error:
        if error.kind is FailureKind.OVERFLOW:
            return _Summary(
                too_long=RequestFailed(
                    request_id="", error=error.kind, message=str(error), size=size(request)
                )
            )
        return _Summary(problem=str(error).rstrip("."), usage=usage)
    text = "".join(pieces).strip()
    if stop not in (StopReason.END, StopReason.CALLS) or not text:
        return _Summary(problem="the model gave no summary", usage=usage)
    return _Summary(text=text, usage=usage)


def fitting(events: Sequence[Event], most: int) -> Condensed:
    """The mildest cut after which the conversation weighs at most `most` bytes; if there is
    none, the one that leaves least."""
    *places, everything = cut_points(events)
    for longest in LENGTHS:

        def fits(upto: int, longest: int = longest) -> bool:
            return weight_after(events, Condensed(upto=upto, longest=longest)) <= most

        if places and fits(places[-1]):
            at = bisect_left(places, True, key=fits)
            return Condensed(upto=places[at], longest=longest)
    last = Condensed(upto=everything, longest=LENGTHS[-1])
    if weight_after(events, last) <= most:
        return last
    return Condensed(upto=everything, words=everything, longest=LENGTHS[-1])


def cut_points(events: Sequence[Event]) -> list[int]:
    """The events up to which something can be left out. Calls are never parted from their
    results: each but the last lies right before an answer, or before everything. An answer whose
    calls have no result yet stays, or that result would be told to nobody."""
    counted = live(events)
    cut = max((e.fact.upto for e in counted if isinstance(e.fact, Condensed)), default=0)
    answers = [
        event.seq - 1
        for event in counted
        if isinstance(event.fact, AssistantSpoke) and not event.fact.interrupted
    ]
    everything = answers[-1] if answers and fold(events).pending else events[-1].seq
    return [cut, *(answer for answer in answers if answer > cut), max(everything, cut)]


def weight_after(events: Sequence[Event], cut: Condensed) -> int:
    """What the conversation would weigh if this happened now."""
    last = events[-1]
    return weight(history([*events, next_event(last, cut, last.ts)]))
