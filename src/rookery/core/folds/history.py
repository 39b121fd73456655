"""The conversation as the model sees it, folded from a task's events.

Providers are strict: roles alternate, and the next user turn starts with the result of every tool
call. This fold guarantees both for any log, so that no other code has to keep two histories in
step.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind, is_interactive_ask, is_non_blocking_ask
from rookery.core.blocks import Block, Text, Thinking, ToolCall, ToolResult, shorter_block
from rookery.core.event_list import CodedEvents, events_after, live, of_kind
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CommandEnded,
    Condensed,
    Ending,
    Event,
    FilesRestored,
    Gathered,
    HistoryRepaired,
    PromptRefused,
    QueueEdited,
    Reminded,
    RequestStarted,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.replies import (
    CALL_TAKEN_BACK,
    CALL_UNDONE,
    CONTEXT_CUT,
    GO_ON,
    NEVER_RUN,
    NOTHING_RETURNED,
    PLAN_APPROVED,
    SUMMARY,
    UNDONE,
    environment_details,
    not_the_user,
    user_message,
)


class Turn(Struct, frozen=True):
    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]


_GO_ON = Turn("user", (Text(text=GO_ON),))


def history(events: Sequence[Event], cut: Condensed | None = None) -> list[Turn]:
    """The turns to send: alternating, starting with the user. With a `cut`, as after that."""
    return _Fold(events, cut).turns()


class Conversation:
    """The history of a growing log. Folds only new events unless one changes earlier turns. An
    unchanged turn stays the same object."""

    def __init__(self) -> None:
        self._fold = _Fold([])
        self._folded = 0

    def turns(self, events: Sequence[Event]) -> list[Turn]:
        known, self._folded = self._folded, len(events)
        new = events[known:] if known else ()
        looks_back = any(isinstance(event.fact, _LOOKS_BACK) for event in new)
        if not known or self._fold.refused or looks_back:
            self._fold = _Fold(events)
        else:
            self._fold.take(new)
        return self._fold.turns()


_LOOKS_BACK = Condensed, HistoryRepaired, PromptRefused, Rewound
_OF_THE_USER = TaskOpened, UserSpoke, QueueEdited, Asked, Answered
"""What is still sent of the events before a cut."""


class _Fold:
    def __init__(self, known: Sequence[Event], cut: Condensed | None = None) -> None:
        counted = live(known)
        facts = (event.fact for event in of_kind(counted, HistoryRepaired))
        repairs = (fact.upto for fact in facts if isinstance(fact, HistoryRepaired))
        self._known = known
        self._cuts = Cuts.among(counted, cut)
        self._bare = max(repairs, default=0)
        self._book = _Book()
        self._queue: dict[str, UserSpoke] = {}
        self._asked: dict[str, str] = {}
        self._told = not self._cuts.upto
        self.refused = any(of_kind(known, PromptRefused))
        self._take_cut(counted)
        self.take(events_after(counted, self._cuts.upto))

    def _take_cut(self, events: Sequence[Event]) -> None:
        """Take the user's words from what was cut; the rest is not even read."""
        before = 0
        for event in of_kind(events, *_OF_THE_USER) if self._cuts.upto else ():
            if event.seq > self._cuts.upto:
                break
            if self._queue and _requested(events, before, event.seq):
                _say_all(self._book, self._queue)
            self._book.longest = self._cuts.longest_at(event.seq)
            self._apply(event, cut=True)
            before = event.seq
        if self._queue and _requested(events, before, self._cuts.upto + 1):
            _say_all(self._book, self._queue)

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            self._book.longest = self._cuts.longest_at(event.seq)
            if not self._told:
                self._book.say(*self._cuts.instead())
                self._told = True
            self._apply(event)

    def turns(self) -> list[Turn]:
        """With queued messages at the end: the next request delivers them."""
        queued = [block for spoken in self._queue.values() for block in _words(spoken)]
        return self._book.turns(() if self._told else self._cuts.instead(), queued)

    def _apply(self, event: Event, *, cut: bool = False) -> None:
        book, cuts = self._book, self._cuts
        match event.fact:
            case TaskOpened(text=text, images=images):
                if text or images:
                    book.say(Text(text=user_message(text)), *images)
            case UserSpoke(message_id=message_id) as spoken:
                if event.seq > cuts.words:
                    self._queue[message_id] = spoken
            case QueueEdited() as edit:
                _edit(self._queue, edit)
            case RequestStarted(details=details):
                _say_all(book, self._queue)
                if details and not cut:
                    book.say(Text(text=environment_details(details)))
            case Asked(ask_id=ask_id, ask=AskKind.FOLLOWUP, text=text, title=title) if cut:
                self._asked[ask_id] = "" if title else text  # with a title, not the model's
            case Answered() as answer if cut:
                kept = event.seq > cuts.words and self._asked.get(answer.ask_id) != ""
                if kept and answer.by == "user" and answer.text:
                    book.say(Text(text=_remembered(answer, self._asked)), *answer.images)
            case _ if cut:
                pass
            case AssistantSpoke(blocks=blocks, interrupted=False):
                book.answer(_without_thinking(blocks) if event.seq <= self._bare else blocks)
            case ToolFinished() as end:
                book.give_result(end)
            case Answered() as answer if _is_for_model(answer):
                book.say(Text(text=_said(answer)), *answer.images)
            case Reminded(text=text) | CommandEnded(text=text):
                book.say(Text(text=not_the_user(text)))
            case Gathered(text=text, images=images):
                book.say(Text(text=not_the_user(text)), *images)
            case FilesRestored(paths=paths) as restored if paths:
                book.say(Text(text=UNDONE.format(paths=_named(restored))))
            case Rewound(to=to):
                since = events_after(self._known, to, event.seq)
                book.add_rewind_result(_started_calls(since), _rewind_notice(since, to))
            case _:
                pass


class Cuts(Struct, frozen=True):
    """Everything condensed so far."""

    upto: int
    words: int
    summary: str
    lengths: tuple[tuple[int, int], ...]
    """Pairs of an event and the longest text kept up to it; both increase."""

    @classmethod
    def among(cls, events: Sequence[Event], last: Condensed | None = None) -> "Cuts":
        found = ((event.seq, event.fact) for event in of_kind(events, Condensed))
        facts = [(seq, fact) for seq, fact in found if isinstance(fact, Condensed)]
        if last:
            facts.append((events[-1].seq + 1, last))
        lengths: list[tuple[int, int]] = []
        for seq, fact in facts:
            if fact.longest:
                lengths = [each for each in lengths if each[1] < fact.longest]
                lengths.append((seq, fact.longest))
        return cls(
            upto=max((min(fact.upto, seq) for seq, fact in facts), default=0),
            words=max((fact.words for _, fact in facts), default=0),
            summary=next((fact.summary for _, fact in reversed(facts) if fact.summary), ""),
            lengths=tuple(lengths),
        )

    def longest_at(self, seq: int) -> int:
        """The longest text sent of event `seq`; 0 for no limit."""
        return next((longest for upto, longest in self.lengths if seq <= upto), 0)

    def instead(self) -> list[Text]:
        """The notice to the model in place of what was left out."""
        message = SUMMARY.format(summary=not_the_user(self.summary))
        summary = [Text(text=message)] if self.summary else []
        return [Text(text=CONTEXT_CUT), *summary]


class _Book:
    """Builds turns: one open user turn, with results first and in call order."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._owed: list[_Debt] = []
        self._said: list[Block] = []
        self._ids: set[str] = set()
        self.longest = 0
        """Longest text kept of the next blocks; 0 for no limit."""

    def say(self, *blocks: Block) -> None:
        self._said += (block for block in self._shorter(blocks) if not _is_blank(block))

    def give_result(self, end: ToolFinished) -> None:
        for debt in self._owed:
            if debt.call_id == end.call_id and debt.result is None:
                result = ToolResult(
                    call_id=debt.sent_id,
                    text=end.text or NOTHING_RETURNED,
                    images=end.images,
                    is_error=end.ending is not Ending.DONE,
                )
                (debt.result,) = self._shorter([result])
                return

    def add_rewind_result(self, calls: Collection[str], why: str) -> None:
        """Rewound calls get this as their result if they have no other."""
        for debt in self._owed:
            if debt.call_id in calls:
                debt.why_none = why

    def answer(self, blocks: tuple[Block, ...]) -> None:
        kept = self._shorter(blocks)
        if not kept:
            return
        self._close_user_turn()
        sent = tuple(self._sent(block) for block in kept)
        if self._turns and self._turns[-1].role == "assistant":
            sent = (*self._turns.pop().blocks, *sent)
        self._turns.append(Turn("assistant", sent))

    def turns(self, more: Sequence[Block] = (), whole: Sequence[Block] = ()) -> list[Turn]:
        """The turns so far, with `more` and `whole` at the end. Leaves the open turn open."""
        turns = [*self._turns, *self._user_turn(more, whole)]
        if not turns or turns[0].role != "user":
            turns.insert(0, _GO_ON)
        return turns

    def _sent(self, block: Block) -> Block:
        """The block as sent: a call gets a unique id and is owed a result."""
        if not isinstance(block, ToolCall):
            return block
        sent_id = block.id
        number = len(self._ids)
        while sent_id in self._ids:
            sent_id = f"{block.id}_{number}"
            number += 1
        self._ids.add(sent_id)
        self._owed.append(_Debt(block.id, sent_id))
        return block if sent_id == block.id else replace(block, id=sent_id)

    def _shorter(self, blocks: Sequence[Block]) -> list[Block]:
        if not self.longest:
            return list(blocks)
        shorter = (shorter_block(block, self.longest) for block in blocks)
        return [block for block in shorter if block]

    def _close_user_turn(self) -> None:
        self._turns += self._user_turn()
        self._owed, self._said = [], []

    def _user_turn(self, more: Sequence[Block] = (), whole: Sequence[Block] = ()) -> list[Turn]:
        """The open turn, unless it is empty."""
        results = [debt.result or debt.without_result() for debt in self._owed]
        last = (block for block in whole if not _is_blank(block))
        blocks = (*results, *self._said, *self._shorter(more), *last)
        return [Turn("user", blocks)] if blocks else []


class _Debt(Struct):
    call_id: str
    sent_id: str
    result: Block | None = None
    why_none: str = NEVER_RUN

    def without_result(self) -> ToolResult:
        return ToolResult(call_id=self.sent_id, text=self.why_none, is_error=True)


def _requested(events: Sequence[Event], after: int, before: int) -> bool:
    """Whether a request was sent between two events."""
    if isinstance(events, CodedEvents):
        place = next(events.places(RequestStarted, after=after), len(events))
        return place < events.place_after(before - 1)
    since = events_after(events, after, before)
    return any(isinstance(event.fact, RequestStarted) for event in since)


def _is_blank(block: Block) -> bool:
    """Providers reject text without content."""
    return isinstance(block, Text) and not block.text.strip()


def _started_calls(events: Iterable[Event]) -> set[str]:
    """The calls that were asked about or carried out."""
    facts = (event.fact for event in events)
    return {fact.call_id for fact in facts if isinstance(fact, Asked | ToolStarted | ToolFinished)}


def _rewind_notice(events: Sequence[Event], to: int) -> str:
    """`events` are the rewound ones. Restored files come first in the text."""
    for event in reversed(events):
        match event.fact:
            case FilesRestored(to=files_to, paths=paths) as restored if files_to == to and paths:
                return CALL_UNDONE.format(paths=_named(restored))
            case _:
                pass
    return CALL_TAKEN_BACK


def _named(restored: FilesRestored) -> str:
    more = restored.count - len(restored.paths)
    return ", ".join([*restored.paths, *([f"and {more} more"] if more > 0 else [])])


def _is_for_model(answer: Answered) -> bool:
    """Text in an answer about a call is part of that call's result instead."""
    spoken = answer.reply == "message" and bool(answer.text or answer.images)
    of_a_call = is_interactive_ask(answer.ask) or is_non_blocking_ask(answer.ask)
    return spoken and not of_a_call


def _said(answer: Answered) -> str:
    """Only text by the user is marked as the user's. The approved plan itself is among the
    environment details."""
    if answer.level:
        return PLAN_APPROVED
    return user_message(answer.text) if answer.by == "user" else not_the_user(answer.text)


def _without_thinking(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(block for block in blocks if not isinstance(block, Thinking))


def _say_all(book: _Book, queue: dict[str, UserSpoke]) -> None:
    for spoken in queue.values():
        book.say(*_words(spoken))
    queue.clear()


def _words(spoken: UserSpoke) -> tuple[Block, ...]:
    return (Text(text=user_message(spoken.text)), *spoken.images)


def _remembered(answer: Answered, asked: Mapping[str, str]) -> str:
    """The user's answer to a question that is no longer sent itself."""
    question = asked.get(answer.ask_id)
    return (f"You asked: {question}\n" if question else "") + user_message(answer.text)


def _edit(queue: dict[str, UserSpoke], edit: QueueEdited) -> None:
    if edit.text is None:
        queue.pop(edit.message_id, None)
    elif edit.message_id in queue:
        queue[edit.message_id] = UserSpoke(
            message_id=edit.message_id,
            text=edit.text,
            images=queue[edit.message_id].images,
        )
