"""Conversations that do not fit into the context window."""

import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from rookery.core.asks import AskKind
from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Condensed,
    Event,
    Fact,
    Noted,
    Reminded,
    RequestFailed,
    RequestStarted,
    Rewound,
    StopReason,
    TaskOpened,
    ToolFinished,
    Usage,
    UserSpoke,
)
from rookery.core.folds.history import Turn, history
from rookery.core.folds.task_record import TaskRecord
from rookery.core.limits import FailureKind, Limits
from rookery.core.next_step import CallModel, Remind, Shorten, TurnRules, next_step
from rookery.engine.context import Context, Equipment, size
from rookery.engine.event_log import EventLog
from rookery.engine.ports.model import (
    Chunk,
    ModelInfo,
    ModelRequest,
    StopChunk,
    TextChunk,
    ToolSpec,
    UsageChunk,
    weight,
)
from rookery.errors import ProviderError
from support.each_row import each_row

pytestmark = pytest.mark.anyio

HISTORIES = 1000 if os.environ.get("ROOKERY_TORTURE") else 100
SYSTEM = "You are careful. " * 40
SPECS = [ToolSpec(f"tool_{n}", "It does something. " * 8, {"type": "object"}) for n in range(10)]

REFUSALS = (
    "This model's maximum context length is {limit} tokens. However, you requested {used} tokens "
    "({used} in the messages, 100 in the completion). Please reduce the length of the messages.",
    "prompt is too long: {used} tokens > {limit} maximum",
    "The input token count ({used}) exceeds the maximum number of tokens allowed ({limit}).",
    "the request exceeds the available context size (n_ctx = {limit}, n_prompt_tokens = {used})",
    "This model's maximum context length is {limit} tokens, but your messages resulted in {used} "
    "tokens.",
    "input is too long for requested model",
)


class Memory:
    recovered = ""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        pass

    def read(self) -> TaskRecord:
        return TaskRecord.of(self.events)

    def close(self) -> None:
        pass


class StrictModel:
    """A model with its own token count, window and error text."""

    def __init__(
        self, declared: int, real: int, *, per_byte: float, refusal: str, summary: str | None
    ) -> None:
        self.model = ModelInfo(id="m", provider="p", window=declared, max_output=declared // 10)
        self._real = real
        self._per_byte = per_byte
        self._refusal = refusal
        self._summary = summary
        self.accepted = 0
        self.refused = 0
        self.summaries = 0

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Chunk], None]:
        check(request.turns)
        used = self.tokens(request)
        if used + (request.max_output or 0) > self._real:
            self.refused += 1
            raise ProviderError(
                self._refusal.format(limit=self._real, used=used), kind=FailureKind.OVERFLOW
            )
        yield self._answer(used)

    async def _answer(self, used: int) -> AsyncGenerator[Chunk, None]:
        self.summaries += 1
        if self._summary is not None:
            yield TextChunk(self._summary)
        yield UsageChunk(Usage(tokens_in=used, tokens_out=10))
        yield StopChunk(StopReason.END)

    def tokens(self, request: ModelRequest) -> int:
        return int(size(request) * self._per_byte) + 1


def check(turns: object) -> None:
    """What every provider insists on: turns alternate, and each call has its result next."""
    assert isinstance(turns, list)
    assert turns[0].role == "user"
    owed: list[str] = []
    for before, turn in zip([None, *turns], turns, strict=False):
        assert before is None or before.role != turn.role
        assert turn.blocks
        if turn.role == "user":
            assert [b.call_id for b in turn.blocks if isinstance(b, ToolResult)] == owed
            owed = []
        else:
            owed = [block.id for block in turn.blocks if isinstance(block, ToolCall)]
    assert not owed


class Rig:
    def __init__(self, model: StrictModel, facts: list[Fact]) -> None:
        self.model = model
        self.ticks = 0
        self.log = EventLog(Memory(), self._now)
        for fact in facts:
            self.log.append(fact)

        async def equip() -> Equipment:
            return Equipment(model, SYSTEM, SPECS)

        async def details() -> Mapping[str, str]:
            return {"Time": "It is late."}

        self.context = Context(self.log, equip, details, "t")

    def _now(self) -> int:
        self.ticks += 1
        return self.ticks

    async def answered(self) -> int:
        """Do what the loop does until a request is accepted; how many were refused."""
        refused = self.model.refused
        for _ in range(10):
            step = next_step(self.log.state, Limits(), TurnRules(words_end=False))
            match step:
                case Shorten():
                    assert await self.context.cut_without_summary(), "nothing was left out"
                case Remind(text, mistake):
                    self.log.append(Reminded(text=text, mistake=mistake))
                case CallModel():
                    ready = await self.context.request()
                    if ready and await self._sent(ready[1]):
                        return self.model.refused - refused
                case _:
                    raise AssertionError(f"The loop came to {step}.")
        raise AssertionError("No request was accepted.")

    async def _sent(self, request: ModelRequest) -> bool:
        self.log.append(RequestStarted(request_id="r", model="m", size=size(request)))
        try:
            async with self.model.stream(request):
                pass
        except ProviderError as error:
            failed = RequestFailed(request_id="r", error=error.kind, message=str(error))
            self.log.append(failed)
            return False
        self.model.accepted += 1
        usage = Usage(tokens_in=self.model.tokens(request), tokens_out=1)
        self.log.append(AssistantSpoke(request_id="r", blocks=(Text(text="ok"),), usage=usage))
        return True

    @property
    def cuts(self) -> list[Condensed]:
        return [event.fact for event in self.log.events if isinstance(event.fact, Condensed)]


def words(rng: random.Random, most: int) -> str:
    alphabet = rng.choice(["word ", "x", "日本語 ", "def f():\n    return 1\n", "é" * 3 + " "])
    return alphabet * max(1, int(rng.random() ** 3 * most / len(alphabet)))


def overfull(rng: random.Random, most: int) -> list[Fact]:
    """A task of any shape with something far too long in it."""
    facts: list[Fact] = [TaskOpened(text=words(rng, most // 4))]
    for number in range(rng.randrange(1, 14)):
        facts.append(RequestStarted(request_id=f"r{number}", model="m"))
        calls = [
            ToolCall(id=f"c{number}_{n}", name="tool_1", arguments={"text": words(rng, most // 3)})
            for n in range(rng.randrange(0, 4))
        ]
        blocks: list[Block] = [Text(text=words(rng, most // 6)), *calls]
        if rng.random() < 0.3:
            blocks.insert(0, Thinking(text=words(rng, most // 5), signature="s", source="x"))
        facts.append(AssistantSpoke(request_id=f"r{number}", blocks=tuple(blocks)))
        for call in calls:
            images = (Image(media_type="image/png", data="x" * 50),) * (rng.random() < 0.1)
            facts.append(ToolFinished(call_id=call.id, text=words(rng, most), images=images))
        if rng.random() < 0.4:
            facts.append(UserSpoke(message_id=f"m{number}", text=words(rng, most // 8)))
        if rng.random() < 0.2:
            facts.append(Asked(ask_id=f"a{number}", ask=AskKind.FOLLOWUP, text="Which one?"))
            reply = Answered(
                ask_id=f"a{number}", ask=AskKind.FOLLOWUP, reply="message", text="The second."
            )
            facts.append(reply)
    return facts


@each_row("batch", range(4))
async def test_every_overfull_conversation_ends_in_an_accepted_request(batch: int):
    """Whatever the window was declared to be, however it is refused, whether or not the model
    can summarise: accepted, with each cut strictly smaller than what was there before."""
    for number in range(HISTORIES // 4):
        rng = random.Random(batch * 1_000_000 + number)
        real = rng.choice([4_000, 8_000, 32_000])
        declared = int(real * rng.choice([0.5, 1, 1, 4, 40]))
        refusal = rng.choice(REFUSALS)
        summary = rng.choice([None, "All is well.", "blah " * 40_000])
        model = StrictModel(
            declared, real, per_byte=rng.choice([0.2, 0.31, 0.6]), refusal=refusal, summary=summary
        )
        rig = Rig(model, overfull(rng, real * 6))
        refused = await rig.answered()
        reported = "{limit}" in refusal
        # one request more at most, where the provider says what it can take
        assert refused <= (1 if reported else 3), (batch, number)
        assert all(cut.tokens_after < cut.tokens_before for cut in rig.cuts)


@each_row("refusal", REFUSALS[:-1])
async def test_one_more_request_is_enough_after_a_refusal(refusal: str):
    facts = overfull(random.Random(7), 200_000)
    model = StrictModel(1_000_000, 8_000, per_byte=0.4, refusal=refusal, summary=None)
    rig = Rig(model, facts)
    assert await rig.answered() == 1
    assert rig.log.state.window == 8_000


async def test_one_line_of_16_megabytes_fits_in_the_end():
    facts: list[Fact] = [
        TaskOpened(text="Look at this: " + "x" * (16 << 20)),
        RequestStarted(request_id="r", model="m"),
        AssistantSpoke(
            request_id="r",
            blocks=(ToolCall(id="c", name="tool_1", arguments={"text": "y" * (16 << 20)}),),
        ),
        ToolFinished(call_id="c", text="z" * (16 << 20)),
    ]
    model = StrictModel(8_000, 8_000, per_byte=0.3, refusal=REFUSALS[0], summary=None)
    rig = Rig(model, facts)
    await rig.answered()
    assert weight(history(rig.log.events)) < 24_000


async def test_a_rewind_restores_everything_that_was_cut():
    facts = overfull(random.Random(3), 60_000)
    model = StrictModel(8_000, 8_000, per_byte=0.3, refusal=REFUSALS[0], summary="In short.")
    rig = Rig(model, facts)
    before = history(rig.log.events)
    seq = rig.log.events[-1].seq
    await rig.answered()
    assert rig.cuts
    assert weight(history(rig.log.events)) < weight(before)
    rig.log.append(Rewound(to=seq))
    assert history(rig.log.events) == before


async def test_messages_of_the_user_stay_when_the_rest_is_cut():
    facts: list[Fact] = [TaskOpened(text="Do it well.")]
    for number in range(30):
        facts += [
            UserSpoke(message_id=f"m{number}", text=f"Mind {number}."),
            RequestStarted(request_id=f"r{number}", model="m"),
            AssistantSpoke(
                request_id=f"r{number}",
                blocks=(ToolCall(id=f"c{number}", name="tool_1", arguments={}),),
            ),
            ToolFinished(call_id=f"c{number}", text="output " * 1_000),
        ]
    model = StrictModel(16_000, 16_000, per_byte=0.3, refusal=REFUSALS[0], summary=None)
    rig = Rig(model, facts)
    await rig.answered()
    said = "\n".join(
        block.text
        for turn in history(rig.log.events)
        for block in turn.blocks
        if isinstance(block, Text)
    )
    assert all(f"Mind {number}." in said for number in range(30))
    assert "Do it well." in said


def long_task() -> list[Fact]:
    """Forty short turns."""
    facts: list[Fact] = [TaskOpened(text="Do it well.")]
    for number in range(40):
        call = ToolCall(id=f"c{number}", name="tool_1", arguments={})
        facts += [
            RequestStarted(request_id=f"r{number}", model="m"),
            AssistantSpoke(request_id=f"r{number}", blocks=(call,)),
            ToolFinished(call_id=call.id, text="output " * 100),
        ]
    return facts


async def test_a_summary_replaces_the_cut_part_and_its_cost_counts():
    facts = long_task()
    model = StrictModel(8_000, 8_000, per_byte=0.3, refusal=REFUSALS[0], summary="In short.")
    rig = Rig(model, facts)
    tokens = rig.log.state.spent.tokens
    await rig.context.condense()
    (cut,) = rig.cuts
    assert cut.summary == "In short."
    assert any("In short." in text for text in texts(history(rig.log.events)))
    assert rig.log.state.spent.tokens > tokens
    assert any("summarised" in text for text in notes(rig))


@each_row("summary", [None, "   ", "long " * 100_000])
async def test_without_a_usable_summary_the_older_part_is_cut(summary: str | None):
    facts = long_task()
    model = StrictModel(8_000, 8_000, per_byte=0.3, refusal=REFUSALS[0], summary=summary)
    rig = Rig(model, facts)
    await rig.context.condense()
    (cut,) = rig.cuts
    assert not cut.summary
    assert any("No summary (" in text for text in notes(rig))


async def test_fifty_condensations_leave_the_opening_and_the_rest_of_the_request_as_they_were():
    """The task, the system prompt and the tools are sent byte for byte; nothing of them is ever
    summarised."""
    model = StrictModel(8_000, 8_000, per_byte=0.3, refusal=REFUSALS[0], summary="Went on.")
    rig = Rig(model, [TaskOpened(text="Keep exactly this: äöü 日本 \t end")])
    first = history(rig.log.events)[0].blocks[0]
    for number in range(50):
        rig.log.append(RequestStarted(request_id=f"r{number}", model="m"))
        call = ToolCall(id=f"c{number}", name="tool_1", arguments={})
        rig.log.append(AssistantSpoke(request_id=f"r{number}", blocks=(call,)))
        rig.log.append(ToolFinished(call_id=call.id, text=f"{number:02} " * 6_000))
        ready = await rig.context.request()
        assert ready
        request = ready[1]
        assert request.turns[0].blocks[0] == first
        assert (request.system, request.tools) == (SYSTEM, SPECS)
    assert len(rig.cuts) >= 40
    assert all(cut.tokens_after < cut.tokens_before for cut in rig.cuts)


async def test_a_conversation_that_fits_is_not_condensed():
    model = StrictModel(100_000, 100_000, per_byte=0.3, refusal=REFUSALS[0], summary="x")
    rig = Rig(model, [TaskOpened(text="Hello.")])
    assert await rig.answered() == 0
    assert not rig.cuts
    assert not model.summaries or model.accepted


async def test_the_token_count_of_the_provider_is_used():
    facts = [TaskOpened(text="word " * 2_000)]
    model = StrictModel(100_000, 100_000, per_byte=0.9, refusal=REFUSALS[0], summary="x")
    rig = Rig(model, [*facts])
    await rig.answered()
    assert rig.log.state.per_byte == pytest.approx(0.9, rel=0.01)


async def test_nothing_to_condense_is_reported_and_changes_nothing():
    model = StrictModel(100_000, 100_000, per_byte=0.3, refusal=REFUSALS[0], summary="x")
    rig = Rig(model, [TaskOpened(text="Hello.")])
    before = history(rig.log.events)
    await rig.context.condense()
    assert not rig.cuts
    assert history(rig.log.events) == before
    assert notes(rig)


async def test_the_cost_of_a_useless_summary_counts():
    long = "long " * 100_000
    model = StrictModel(100_000, 100_000, per_byte=0.3, refusal=REFUSALS[0], summary=long)
    words = (Text(text="Hello yourself."),)
    rig = Rig(
        model,
        [
            TaskOpened(text="Hello."),
            RequestStarted(request_id="r", model="m"),
            AssistantSpoke(request_id="r", blocks=words, usage=Usage(tokens_in=5, cost=0.5)),
        ],
    )
    before, tokens = history(rig.log.events), rig.log.state.spent.tokens
    await rig.context.condense()
    assert model.summaries == 1
    assert not rig.cuts
    assert history(rig.log.events) == before
    assert rig.log.state.spent.tokens > tokens
    assert rig.log.state.failure is None


def texts(turns: list[Turn]) -> list[str]:
    return [block.text for turn in turns for block in turn.blocks if isinstance(block, Text)]


def notes(rig: Rig) -> list[str]:
    return [event.fact.text for event in rig.log.events if isinstance(event.fact, Noted)]
