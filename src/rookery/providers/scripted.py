"""A provider that says what a script says: for tests, demonstrations and bug reports.

People write YAML files: `--provider scripted --model FILE.yaml`. Tests play scenes with
`performance`.

Which answer of a script is given depends only on the request: after n assistant turns it is the
answer n + 1. So a task that was killed and resumed by another process goes on where it was.
`docs/providers.md` describes the format.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import msgspec
import yaml

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.limits import FailureKind
from rookery.core.text.terminal_text import counted
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.errors import ProviderError, SettingsError

SOURCE = "scripted"
MODEL = ModelInfo(id="scripted", provider="scripted", images=True, thinking=True, calls="native")

_WORD = re.compile(r"\S+\s*|\s+")
_PIECE = re.compile(r"(?s).{1,24}")

Line: TypeAlias = str | Block | Usage | StopReason | ProviderError
Scene: TypeAlias = Sequence[Line]


class CallLine(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any] = {}
    id: str = ""


class ScriptedFailure(msgspec.Struct, forbid_unknown_fields=True):
    kind: FailureKind
    message: str = "The script says so."
    times: int = 1
    status: int = 0
    retry_after: float | None = None

    def error(self) -> ProviderError:
        return ProviderError(
            self.message, kind=self.kind, status=self.status, retry_after=self.retry_after
        )


class ScriptedAnswer(msgspec.Struct, forbid_unknown_fields=True):
    say: str = ""
    think: str = ""
    calls: list[CallLine] = []
    fail: ScriptedFailure | None = None
    usage: Usage | None = None
    stop: StopReason | None = None
    pause: float = 0.0

    def scene(self, *, failed: int) -> Scene:
        said = self.say or self.think or self.calls
        if self.fail and (not said or failed < self.fail.times):
            return [self.fail.error()]
        lines: list[Line | None] = [
            Thinking(text=self.think) if self.think else None,
            self.say or None,
            *(ToolCall(id=c.id, name=c.tool, arguments=c.arguments) for c in self.calls),
            self.usage,
            self.stop,
        ]
        return [line for line in lines if line is not None]


Script: TypeAlias = list[ScriptedAnswer] | dict[str, list[ScriptedAnswer]]
"""The answers for every task, or for each task by words in its opening."""


class FileProvider:
    """Plays a script from a file."""

    def __init__(self, script: Script, model: ModelInfo) -> None:
        self.model = model
        self._parts = script if isinstance(script, dict) else {"": script}
        self._asked_for: Counter[tuple[str, int]] = Counter()

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        words = self._part_for(_opening(request))
        answers = self._parts[words]
        number = sum(turn.role == "assistant" for turn in request.turns)
        if number >= len(answers):
            return performance([()] * len(answers), number)
        answer, failed = answers[number], self._asked_for[words, number]
        self._asked_for[words, number] += 1
        scenes: list[Scene] = [()] * number
        return performance([*scenes, answer.scene(failed=failed)], number, pause=answer.pause)

    async def aclose(self) -> None:
        pass

    def _part_for(self, opening: str) -> str:
        """The first key that the opening contains."""
        found = [words for words in self._parts if words in opening]
        if not found:
            raise ProviderError(
                f"The script has no answers for a task that begins with {opening[:80]!r}. Add a "
                'list for words of it, or one for "".',
                kind=FailureKind.REJECTED,
            )
        return min(found, key=lambda words: words == "")


@asynccontextmanager
async def performance(
    scenes: Sequence[Scene], number: int, *, pause: float = 0.0
) -> AsyncGenerator[AsyncIterator[Chunk], None]:
    """One scene as a stream, with a pause before each piece."""
    if number >= len(scenes):
        raise ProviderError(
            (
                f"The script has {counted(len(scenes), 'answer')}, but the model was asked once "
                "more. Add an answer."
            ),
            kind=FailureKind.REJECTED,
        )
    async with aclosing(_play(scenes[number], number, pause)) as chunks:
        yield chunks


def chunks_of(scene: Scene, number: int) -> Iterator[Chunk]:
    """A scene as small chunks, as a real provider would stream it."""
    calls = 0
    stop: StopReason | None = None
    for line in scene:
        match line:
            case StopReason():
                stop = line
            case str(text) | Text(text=text):
                yield from (TextChunk(word) for word in _WORD.findall(text))
            case Thinking(text=text, signature=signature):
                yield from (ThinkingChunk(word, source=SOURCE) for word in _WORD.findall(text))
                if signature:
                    yield ThinkingChunk("", signature, SOURCE)
            case ToolCall():
                yield from _call(line, calls, number)
                calls += 1
            case Usage():
                yield UsageChunk(line)
            case ProviderError():
                raise line
            case Image() | ToolResult():
                raise AssertionError(f"no model says {line}")
    yield StopChunk(stop or (StopReason.CALLS if calls else StopReason.END))


def read_script(path: Path) -> Script:
    """Raises `SettingsError` with the file and the problem."""
    try:
        script: Script = msgspec.convert(yaml.safe_load(path.read_bytes()), Script)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError(f"The script {path} cannot be read: {reason}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise SettingsError(f"The script {path} is not YAML: {where}.") from error
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"The script {path} is not a list of answers: {error}. An answer has say, "
            "think, calls, fail, usage, stop and pause; a mapping has a list of "
            "answers for each text."
        ) from error
    return script


async def _play(scene: Scene, number: int, pause: float) -> AsyncGenerator[Chunk, None]:
    for chunk in chunks_of(scene, number):
        await anyio.sleep(pause)
        yield chunk


def _call(call: ToolCall, index: int, scene: int) -> Iterator[Chunk]:
    yield CallChunk(index, "", id=call.id or f"call_{scene + 1}_{index + 1}", name=call.name)
    arguments = msgspec.json.encode(dict(call.arguments)).decode()
    yield from (CallChunk(index, piece) for piece in _PIECE.findall(arguments))


def _opening(request: ModelRequest) -> str:
    """The first text of the user."""
    blocks = (block for turn in request.turns if turn.role == "user" for block in turn.blocks)
    return next((block.text for block in blocks if isinstance(block, Text)), "")
