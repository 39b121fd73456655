"""Builds the requests to the model and keeps them within its context window.

Nothing is deleted from the log: a `Condensed` fact says what later requests leave out. A summary by
the model is tried first. Cutting without a summary needs no model, so it always works. Each cut is
tried on the real conversation, and its size decides.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import anyio.lowlevel
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import SHORTEST, Text
from rookery.core.event_list import live, newest, of_kind
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
)
from rookery.core.folds.history import Conversation, Cuts, Turn, history
from rookery.core.folds.task_state import TaskState
from rookery.core.limits import FailureKind
from rookery.core.replies import (
    CONDENSED,
    LEFT_OUT,
    NOT_SUMMARISED,
    NOTHING_TO_CONDENSE,
    SUMMARISE,
    SUMMARISED,
    environment_details,
)
from rookery.engine.event_log import EventLog
from rookery.engine.model_turn import Turnstile
from rookery.engine.ports.hooks import SessionHook
from rookery.engine.ports.model import (
    ModelRequest,
    Provider,
    Scale,
    StopChunk,
    TextChunk,
    TokenRoom,
    ToolSpec,
    UsageChunk,
    room,
    text_weight,
    weight,
)
from rookery.errors import ProviderError

Trigger: TypeAlias = Literal["auto", "manual"]
"""Who asked for condensing: the engine, because the context is full, or the user."""
KEPT_SHARE = 0.3
"""Share of the context that the newest turns keep when older ones are summarised."""
SHARE_AFTER_CUT = 0.6
"""Share of the context in use after a cut. More would fill it again at once."""
SUMMARY_TOKENS = 4_096

TEXT_LIMITS = (0, 24_000, 8_000, 2_000, 600, SHORTEST)
"""Longest text kept of a single block, tried in this order; 0 keeps all of it."""


class Equipment(Struct, frozen=True):
    """The provider, system prompt and tools of a task in its current mode."""

    provider: Provider
    system: str
    specs: Sequence[ToolSpec]


class Context:
    def __init__(
        self,
        log: EventLog,
        equip: Callable[[], Awaitable[Equipment]],
        details: Callable[[], Awaitable[Mapping[str, str]]],
        cache_key: str,
        *,
        hooks: Sequence[SessionHook] = (),
        turnstile: Turnstile | None = None,
    ) -> None:
        """A summary is a request of its own and passes the `turnstile`."""
        self._hooks = hooks
        self._turnstile = turnstile or Turnstile()
        self._log = log
        self._equip = equip
        self._read_details = details
        self._cache_key = cache_key
        self._conversation = Conversation()
        self._scale = Scale()
        self.size = 0
        """Bytes of text in the last request."""
        self.details: Mapping[str, str] = {}
        """Environment details at the end of the last request."""

    async def request(self) -> tuple[Provider, ModelRequest] | None:
        """Return the next request and its provider. Condenses first if the request does not fit;
        None if the loop must decide again after that."""
        equipment = await self._equip()
        request = await self._request_with_details(equipment)
        if self._tokens(self.size) > self._room(equipment).request:
            await self.condense("auto")
            if self._log.state.failure or self._log.state.interrupted:
                return None
            await self._turnstile.wait()
            request = await self._request_with_details(equipment)
        return equipment.provider, request

    async def _request_with_details(self, equipment: Equipment) -> ModelRequest:
        continues = self._conversation.turns(self._log.events)[-1].role == "assistant"
        self.details = {} if continues else await self._read_details()
        # no await from here on: a message that arrives meanwhile would count as sent
        request = self._request(equipment)
        if self.details:
            turns = _with_user_text(request.turns, environment_details(self.details))
            request = replace(request, turns=turns)
        self.size = size(request, self._scale.weight)
        return request

    async def condense(self, trigger: Trigger = "manual") -> None:
        """Summarise the older part of the conversation, or cut it if that fails."""
        if await self._hook_refuses_cut(trigger):
            return
        equipment = await self._equip()
        before, most = self._measures(equipment)
        self._log.append(Condensing(tokens=self._tokens(before)))
        cut = await self._fitting_cut(int(min(most, before) * KEPT_SHARE))
        summary = _Summary()
        if cut.upto:
            await self._turnstile.wait()
            request = self._summary_request(equipment)
            self._turnstile.sent()
            summary = await _summary(equipment.provider, request)
            if summary.too_long:
                self._log.append(summary.too_long)
                return
        cut = replace(cut, summary=summary.text, usage=summary.usage)
        if summary.text and weight_after(self._log.events, cut) < min(before, most):
            self._append(equipment, cut, SUMMARISED)
            await self._repeat_what_was_cut()
            return
        why = "the summary was too long" if summary.text else summary.problem
        how = NOT_SUMMARISED.format(why=why) if why else LEFT_OUT
        if not await self._cut(equipment, how, summary.usage):
            self._charge(summary.usage)
            self._log.append(Noted(text=NOTHING_TO_CONDENSE))

    async def cut_without_summary(self) -> bool:
        """Cut without a summary, because the model has just refused the request. False if
        nothing can be cut."""
        if await self._hook_refuses_cut("auto"):
            return False
        return await self._cut(await self._equip(), LEFT_OUT, Usage())

    async def _hook_refuses_cut(self, trigger: Trigger) -> bool:
        for hook in self._hooks:
            if reason := await hook.before_cut(trigger):
                self._log.append(Noted(text=f"Nothing was condensed: a hook refused it. {reason}"))
                return True
        return False

    async def _repeat_what_was_cut(self) -> None:
        for hook in self._hooks:
            await hook.after_cut()

    async def _cut(self, equipment: Equipment, how: str, usage: Usage) -> bool:
        before, most = self._measures(equipment)
        cut = await self._fitting_cut(int(min(most * SHARE_AFTER_CUT, before * SHARE_AFTER_CUT)))
        if weight_after(self._log.events, cut) >= before:
            return False
        self._append(equipment, replace(cut, usage=usage), how)
        await self._repeat_what_was_cut()
        return True

    def _charge(self, usage: Usage) -> None:
        """Record the cost of a summary that did not help, as an interrupted answer to the last
        request."""
        if usage == Usage():
            return
        facts = (event.fact for event in newest(self._log.events, RequestStarted))
        last = next((fact.request_id for fact in facts if isinstance(fact, RequestStarted)), "")
        unused = AssistantSpoke(request_id=last, blocks=(), usage=usage, interrupted=True)
        self._log.append(unused)

    async def _fitting_cut(self, most: int) -> Condensed:
        """In a thread: it takes long in a very long conversation."""
        log = self._log
        return await anyio.to_thread.run_sync(fitting_cut, log.events, most, log.state)

    def _append(self, equipment: Equipment, cut: Condensed, how: str) -> None:
        fixed = self._fixed_size(equipment)
        before = self._tokens(fixed + weight(history(self._log.events)))
        details = _details_size({**self._log.state.known_details, **self.details})
        after = self._tokens(fixed + details + weight_after(self._log.events, cut))
        self._log.append(replace(cut, tokens_before=before, tokens_after=after))
        self._log.append(Noted(text=CONDENSED.format(before=before, after=after, how=how)))

    def _measures(self, equipment: Equipment) -> tuple[int, int]:
        """The size of the conversation now, and the size it may have after a cut. Environment
        details are excluded, because they are sent again after a cut."""
        most = self._room(equipment).request / self._log.state.per_byte
        known = self._log.state.known_details
        spare = int(most - self._fixed_size(equipment) - _details_size({**known, **self.details}))
        size_now = weight(history(self._log.events)) - _details_size(known)
        return max(size_now, 0), max(spare, 0)

    def _fixed_size(self, equipment: Equipment) -> int:
        """Bytes of everything but the conversation."""
        return text_weight(equipment.system) + sum(tool.size for tool in equipment.specs)

    def _room(self, equipment: Equipment) -> TokenRoom:
        model = equipment.provider.model
        return room(self._log.state.window or model.window, model.max_output)

    def _tokens(self, size: int) -> int:
        return int(size * self._log.state.per_byte)

    def _request(self, equipment: Equipment) -> ModelRequest:
        return ModelRequest(
            system=equipment.system,
            turns=self._conversation.turns(self._log.events),
            tools=equipment.specs,
            max_output=self._room(equipment).answer,
            cache_key=self._cache_key,
        )

    def _summary_request(self, equipment: Equipment) -> ModelRequest:
        """The conversation as it would be sent, so that the provider's cache applies; less of it
        if even that does not fit."""
        request = self._request(equipment)
        limits = self._room(equipment)
        most = limits.window - limits.answer
        if self._tokens(size(request)) > most:
            spare = int(most / self._log.state.per_byte) - self._fixed_size(equipment)
            request = replace(request, turns=self._turns_within(max(spare, 0)))
        return replace(
            request,
            turns=_with_user_text(request.turns, SUMMARISE),
            max_output=min(limits.answer, SUMMARY_TOKENS),
        )

    def _turns_within(self, most: int) -> list[Turn]:
        events = self._log.events
        return history(events, fitting_cut(events, most, self._log.state))


def size(request: ModelRequest, weigh: Callable[[Sequence[Turn]], int] = weight) -> int:
    """Bytes of text in a request."""
    fixed = text_weight(request.system) + sum(tool.size for tool in request.tools)
    return weigh(request.turns) + fixed


def _details_size(details: Mapping[str, str]) -> int:
    return weight([Turn("user", (Text(text=environment_details(details)),))]) if details else 0


def _with_user_text(turns: Sequence[Turn], text: str) -> list[Turn]:
    *before, last = turns
    if last.role == "assistant":
        return [*turns, Turn("user", (Text(text=text),))]
    return [*before, Turn("user", (*last.blocks, Text(text=text)))]


class _Summary(Struct, frozen=True):
    text: str = ""
    problem: str = ""
    usage: Usage = Usage()
    too_long: RequestFailed | None = None
    """Set if the context window is smaller than assumed."""


async def _summary(provider: Provider, request: ModelRequest) -> _Summary:
    """Ask the model for a summary; the result holds its text or the problem."""
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


def fitting_cut(events: Sequence[Event], most: int, state: TaskState) -> Condensed:
    """The smallest cut after which the conversation has at most `most` bytes, or the largest
    possible cut."""
    *places, everything = cut_points(events, state)
    for longest in TEXT_LIMITS:

        def fits(upto: int, longest: int = longest) -> bool:
            return weight_after(events, Condensed(upto=upto, longest=longest)) <= most

        if places and fits(places[-1]):
            at = bisect_left(places, True, key=fits)
            return Condensed(upto=places[at], longest=longest)
    last = Condensed(upto=everything, longest=TEXT_LIMITS[-1])
    if weight_after(events, last) <= most:
        return last
    return Condensed(upto=everything, words=everything, longest=TEXT_LIMITS[-1])


def cut_points(events: Sequence[Event], state: TaskState) -> list[int]:
    """The events up to which the conversation can be cut. A cut never separates a call from its
    result: every point but the last is right before an answer. An answer whose calls have no
    result yet stays."""
    counted = live(events)
    cut = Cuts.among(counted).upto
    answers = [
        event.seq - 1
        for event in of_kind(counted, AssistantSpoke, after=cut)
        if isinstance(event.fact, AssistantSpoke) and not event.fact.interrupted
    ]
    everything = answers[-1] if answers and state.pending else events[-1].seq
    return [cut, *(answer for answer in answers if answer > cut), max(everything, cut)]


def weight_after(events: Sequence[Event], cut: Condensed) -> int:
    """The size of the conversation after a cut."""
    return weight(history(events, cut))
