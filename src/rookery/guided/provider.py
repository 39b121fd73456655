"""A provider between the engine and a small model, which makes the tool calls itself.

Words of the model that are not part of the answer are shown as reasoning while they arrive.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.folds.run_tallies import added
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    Provider,
    SilenceChunk,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.engine.ports.workspace import FileText
from rookery.errors import ToolError
from rookery.guided.choice import EditPlace, deleted_paths, places
from rookery.guided.code_text import copied, fault, repaired, replace_section, without_fence
from rookery.guided.moves import (
    APPROACHES,
    AnswerInWords,
    Approach,
    FindCommand,
    Finish,
    GuidedCall,
    Look,
    RenameAll,
    Try,
    checks_after,
    edit_calls,
    next_move,
)
from rookery.guided.prompts import (
    SYSTEM,
    answer_turns,
    briefing,
    command_turns,
    plan_schema,
    plan_turns,
    write_turns,
)
from rookery.guided.record import RESTORING, RUN, Record, form_of, read_record

WINDOW = 128_000
"""What the engine may take the context for: prompts are kept short here, not by condensing."""
PLAN_TOKENS = 320
ANSWER_TOKENS = 400
COMMAND_TOKENS = 100
MOST_WRITTEN = 1_600
LONGEST_COMMAND = 300
SOURCE = "guided"
_ODD = (
    "{path} is one code block, or not UTF-8 text with one kind of line end, so I could not restore "
    "it exactly."
)


Examine: TypeAlias = Callable[[str], Awaitable[FileText | None]]
"""Reads a file without showing it to the model."""


class _Reply(Struct):
    """An answer of the small model."""

    text: str = ""
    complete: bool = False


class GuidedProvider:
    def __init__(self, inner: Provider, examine: Examine) -> None:
        self.model: ModelInfo = replace(
            inner.model, window=max(inner.model.window, WINDOW), calls="native"
        )
        self._inner = inner
        self._examine = examine

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Chunk], None]:
        record = await _with_forms(read_record(request.turns), self._examine)
        answer = _GuidedAnswer(self._inner, request, record)
        chunks = answer.chunks()
        try:
            yield chunks
        finally:
            await chunks.aclose()


class _GuidedAnswer:
    """One answer to the engine. It may take several requests to the model, or none."""

    def __init__(self, provider: Provider, request: ModelRequest, record: Record) -> None:
        self._provider = provider
        self._request = request
        self._record = record
        self._tools = [tool.name for tool in request.tools]
        self._usage = Usage()
        self._seed = len(self._record.attempts) + 1

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        match next_move(self._record, self._tools):
            case Look(calls, words):
                chunks = self._calls(calls, words)
            case FindCommand():
                chunks = self._find_command()
            case AnswerInWords():
                chunks = self._answer()
            case RenameAll(edits):
                words = self._titled("Renaming it in all files.", edits)
                chunks = self._calls(self._with_checks(edits), words)
            case Try(approach, error):
                chunks = self._try(approach, error)
            case Finish(words):
                chunks = self._finish(words)
        async for chunk in chunks:
            yield chunk

    async def _finish(self, words: str) -> AsyncGenerator[Chunk, None]:
        yield TextChunk(words)
        yield UsageChunk(self._usage)
        yield StopChunk(StopReason.END)

    async def _calls(
        self, calls: Sequence[GuidedCall], words: str = ""
    ) -> AsyncGenerator[Chunk, None]:
        if words:
            yield TextChunk(words)
        for index, call in enumerate(calls):
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            yield CallChunk(index, arguments, id="", name=call.tool)
        yield UsageChunk(self._usage)
        yield StopChunk(StopReason.CALLS)

    async def _answer(self) -> AsyncGenerator[Chunk, None]:
        turns = answer_turns(briefing(self._record, self._record.files))
        reply = _Reply()
        async for chunk in self._ask(reply, turns, most=ANSWER_TOKENS, shown=True):
            yield chunk
        yield UsageChunk(self._usage)
        yield StopChunk(StopReason.END if reply.text.strip() else StopReason.UNKNOWN)

    async def _find_command(self) -> AsyncGenerator[Chunk, None]:
        reply = _Reply()
        turns = command_turns(briefing(self._record, self._record.files))
        async for chunk in self._ask(reply, turns, most=COMMAND_TOKENS, stop=("```",)):
            yield chunk
        command = without_fence(reply.text, "").strip().split("\n")[0]
        usable = command and len(command) <= LONGEST_COMMAND
        call = GuidedCall(RUN, {"command": command if usable else "ls -R", "timeout": 30})
        async for chunk in self._calls([call]):
            yield chunk

    async def _try(self, first: int, error: str) -> AsyncGenerator[Chunk, None]:
        """Try approaches until one gives edits that pass the guards."""
        for number in range(first, len(APPROACHES)):
            edits: dict[str, str | None] = {}
            draft = _Draft(self._record, APPROACHES[number], error)
            async for chunk in self._draft(draft, edits):
                yield chunk
            if edits:
                title = f"Attempt {number + 1} of {len(APPROACHES)}."
                words = self._titled(title, edits, draft.plan)
                async for chunk in self._calls(self._with_checks(edits), words):
                    yield chunk
                return
            error = draft.error or error
        async for chunk in self._give_up(error):
            yield chunk

    def _titled(self, title: str, edits: Mapping[str, str | None], plan: str = "") -> str:
        """The words of an attempt. They keep what is needed to restore its files exactly."""
        forms = [f"{path}: {form}" for path in edits if (form := self._record.forms.get(path))]
        return "\n\n".join(filter(None, ("\n".join([title, *forms]), plan)))

    def _with_checks(self, edits: Mapping[str, str | None]) -> list[GuidedCall]:
        checks = checks_after(self._record, edits) if RUN in self._tools else []
        return [*edit_calls(self._record, edits), *checks]

    async def _give_up(self, error: str) -> AsyncGenerator[Chunk, None]:
        if calls := edit_calls(self._record, {}):
            chunks = self._calls(calls, f"No attempt led to a usable change. {RESTORING}")
        else:
            chunks = self._finish(f"I could not do this; nothing was changed. {error}".strip())
        async for chunk in chunks:
            yield chunk

    async def _draft(
        self, draft: "_Draft", edits: dict[str, str | None]
    ) -> AsyncGenerator[Chunk, None]:
        """Let the model plan and write; `edits` gets what passes the guards."""
        record = self._record
        files = record.changeable()
        where = places(record.task, files, record.paths, all_files=not draft.approach.focused)
        if not where:
            odd = next(iter(record.fixed), "")
            draft.error = _ODD.format(path=odd) if odd else "There is no file that may be changed."
            return
        brief = briefing(record, record.files)
        new = [place for place in where if place.path not in record.paths]
        chosen = where if new and draft.approach.focused else where[:1]
        if draft.approach.planned:
            reply = _Reply()
            plan = self._ask(
                reply,
                plan_turns(brief, draft.error),
                most=PLAN_TOKENS,
                temperature=draft.approach.temperature,
                schema=plan_schema(where),
            )
            async for chunk in plan:
                yield chunk
            planned = draft.take_plan(reply.text, where)
            chosen = chosen if new else planned or chosen
        texts = dict(record.files)
        for place in chosen:
            reply = _Reply()
            turns = write_turns(brief, place, texts, edits, draft.plan, draft.error)
            old = texts.get(place.path)
            size = len(old or "") if place.is_whole else 2_000
            written = self._ask(
                reply,
                turns,
                most=min(MOST_WRITTEN, size // 2 + 500),
                temperature=draft.approach.temperature,
                stop=("\n```",),
            )
            async for chunk in written:
                yield chunk
            draft.take_file(place, reply, texts, edits)
        if edits:
            edits |= dict.fromkeys(deleted_paths(record.task, files))

    async def _ask(
        self,
        reply: _Reply,
        turns: Sequence[Turn],
        *,
        most: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        stop: tuple[str, ...] = (),
        shown: bool = False,
    ) -> AsyncGenerator[Chunk, None]:
        """Ask the model. Its words are shown as the answer or as reasoning."""
        request = ModelRequest(
            system=SYSTEM,
            turns=turns,
            max_output=most,
            cache_key=self._request.cache_key,
            temperature=temperature,
            seed=self._seed,
            answer_schema=schema,
            stop=stop,
        )
        before = self._usage
        async with self._provider.stream(request) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk(text):
                        reply.text += text
                        yield chunk if shown else ThinkingChunk(text, source=SOURCE)
                    case UsageChunk(usage):
                        self._usage = added(before, usage)
                    case StopChunk(reason):
                        reply.complete = reason is StopReason.END
                    case SilenceChunk() | ThinkingChunk():
                        yield chunk
                    case CallChunk():
                        pass
        if not shown:
            yield ThinkingChunk("\n\n", source=SOURCE)


async def _with_forms(record: Record, examine: Examine) -> Record:
    """The record with the forms of the files that no attempt has changed yet."""
    forms, fixed = dict(record.forms), []
    changed = {path for attempt in record.attempts for path in attempt.edits}
    for path, shown in record.files.items():
        if path not in changed:
            try:
                file = await examine(path)
            except ToolError:
                file = None
            exact = file and file.encoding == "utf-8" and ("\ufeff" if file.bom else "") + file.text
            # write_to_file takes the fences around all of a file for the model's
            whole_block = shown.startswith("```") and shown.endswith("```\n")
            form = form_of(exact, shown) if exact and not whole_block else None
            if form is None:
                fixed.append(path)
            elif form:
                forms[path] = form
    return replace(record, forms=forms, fixed=fixed)


class _Draft:
    """One approach in progress."""

    def __init__(self, record: Record, approach: Approach, error: str) -> None:
        self.approach = approach
        self.plan = ""
        self.error = error
        self._task = record.task
        self._before = record.files
        self._tried: dict[str, list[str | None]] = {}
        for attempt in record.attempts:
            for path, text in attempt.edits.items():
                self._tried.setdefault(path, []).append(text)

    def take_plan(self, text: str, where: Sequence[EditPlace]) -> list[EditPlace]:
        """The chosen places; empty if the plan cannot be used."""
        try:
            plan = json.loads(text)
            names = [str(name) for name in plan["where"]]
            self.plan = str(plan["change"]).strip()
        except (ValueError, KeyError, TypeError, RecursionError):
            return []
        by_name = {place.name: place for place in where}
        return [by_name[name] for name in dict.fromkeys(names) if name in by_name]

    def take_file(
        self, place: EditPlace, reply: _Reply, texts: dict[str, str], edits: dict[str, str | None]
    ) -> None:
        """Accept a written file or section, unless a guard finds something wrong with it."""
        # normalised: the file's own line ends are restored later, and would not replace these
        said = reply.text.replace("\r\n", "\n").replace("\r", "\n")
        written = without_fence(said, place.path)
        old = texts.get(place.path)
        new = written
        if old is not None and not place.is_whole:
            new = replace_section(old, place.section, written)
        if not reply.complete and "```" not in reply.text:
            self.error = f"{place.path} was too long."
            return
        before = self._before.get(place.path)
        if before is not None:
            new = repaired(place.path, before, new, task=self._task, focused=self.approach.focused)
        if new in self._tried.get(place.path, ()):
            self.error = self.error or f"{place.path} is as in an earlier try."
            return
        problem = fault(place.path, before, new, task=self._task)
        if before is None:
            problem = problem or copied(place.path, new, self._before, task=self._task)
        if problem:
            self.error = problem
            return
        texts[place.path] = edits[place.path] = new
