"""The public names of the Python API. `tests/api/public_names.txt` has them with signatures.

A name is removed or changed only with a new major version, and before 1.0 with a new minor one.
"""

from rookery.api.blocking import BlockingHost, BlockingSession, open_sync
from rookery.api.hosts import OpenHost, open
from rookery.api.sessions import Answers, OpenSession, TaskEvent, TurnResult
from rookery.app.additions import AddedHook as Hook
from rookery.app.additions import FunctionTool, Veto, tool
from rookery.core.asks import AskKind, Ruling, ask, deny
from rookery.core.blocks import Text, ToolCall, ToolResult
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    CompletionOffered,
    FilesChanged,
    RequestFailed,
    StopReason,
    TaskFailed,
    TextStreamed,
    ToolFinished,
    ToolStarted,
)
from rookery.core.limits import FailureKind
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    Provider,
    StopChunk,
    TextChunk,
)
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.errors import (
    CommandRejected,
    ProviderError,
    RookeryError,
    SettingsError,
    StorageError,
    ToolError,
    UsageError,
)

__all__ = [
    "Action",
    "Answers",
    "AskKind",
    "Asked",
    "AssistantSpoke",
    "BlockingHost",
    "BlockingSession",
    "CallChunk",
    "Chunk",
    "CommandRejected",
    "CompletionOffered",
    "FailureKind",
    "FilesChanged",
    "FunctionTool",
    "Hook",
    "ModelInfo",
    "ModelRequest",
    "OpenHost",
    "OpenSession",
    "Outcome",
    "Provider",
    "ProviderError",
    "RequestFailed",
    "RookeryError",
    "Ruling",
    "SettingsError",
    "StopChunk",
    "StopReason",
    "StorageError",
    "TaskEvent",
    "TaskFailed",
    "Text",
    "TextChunk",
    "TextStreamed",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolResult",
    "ToolStarted",
    "TurnResult",
    "UsageError",
    "Veto",
    "ask",
    "deny",
    "open",
    "open_sync",
    "tool",
]
