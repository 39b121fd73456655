"""A debug log: one line per fact and per change of the agent's state."""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from rookery import NAME
from rookery.core.asks import AskKind
from rookery.core.facts import Event
from rookery.core.folds.view import View, see
from rookery.core.message import AgentStateInfo, detect

LARGEST = 10 * 1024 * 1024
PREVIEW = 50


class DebugLog:
    """Writes a task's events to the log. `hide` removes known secrets; facts contain only keys
    that a person typed."""

    def __init__(self, log: logging.Logger, hide: Callable[[str], str] = str) -> None:
        self._log = log
        self._hide = hide
        self._view = View()
        self._agent = detect(())

    def show(self, event: Event, child: str = "") -> None:
        if child:
            self._log.debug("[Facts of %s] %s: %d", child, type(event.fact).__name__, event.seq)
            return
        before = self._agent
        self._view = see(self._view, event)
        self._agent = agent = detect(self._view.messages)
        last = agent.last_message
        noted = {
            "seq": event.seq,
            "messages": len(self._view.messages),
            "last": f"{last.type}:{last.ask or last.say}" if last else None,
            "partial": last.partial if last else None,
            "preview": self._hide(last.text or "")[:PREVIEW] if last else None,
            **_flags(agent),
        }
        self._write("Facts", type(event.fact).__name__, noted)
        if agent.state is not before.state:
            self._write("State", f"{before.state} → {agent.state}", _flags(agent))
        for name in emitted(before, agent):
            asks, done = name == "waitingForInput", name == "taskCompleted"
            about = {"ask": agent.current_ask} if asks else {"success": True} if done else {}
            self._write("Client", f"EMIT {name}", about)

    def _write(self, component: str, text: str, about: Mapping[str, Any]) -> None:
        self._log.debug("[%s] %s: %s", component, text, json.dumps(about))


def _flags(agent: AgentStateInfo) -> dict[str, Any]:
    return {
        "ask": agent.current_ask,
        "waiting": agent.is_waiting_for_input,
        "running": agent.is_running,
        "streaming": agent.is_streaming,
    }


def emitted(before: AgentStateInfo, agent: AgentStateInfo) -> Iterator[str]:
    """What a client of the engine's messages receives for a change, by the names of that format.
    Their order is part of it."""
    another = agent.last_message_ts != before.last_message_ts
    asks_anew = agent.is_waiting_for_input and (another or not before.is_waiting_for_input)
    if asks_anew:
        yield "waitingForInput"
    if before.is_waiting_for_input and agent.is_running:
        yield "resumedRunning"
    if agent.is_streaming and not before.is_streaming:
        yield "streamingStarted"
    if before.is_streaming and not agent.is_streaming:
        yield "streamingEnded"
    if asks_anew and agent.current_ask in _COMPLETIONS:
        yield "taskCompleted"


_COMPLETIONS = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)


class _Times(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return datetime.fromtimestamp(record.created).astimezone().isoformat("T", "milliseconds")


class _PrivateFile(RotatingFileHandler):
    """Readable only by the user: the log contains output of files and commands."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return open(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:
        """A log that cannot be written, as on a full disk, must not stop the work."""


@contextmanager
def open_debug_log(file: Path, hide: Callable[[str], str] = str) -> Iterator[DebugLog]:
    """A rotated log at `file`, which also gets our modules' log messages."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = logging.getLogger(NAME)
    lines = _PrivateFile(file, maxBytes=LARGEST, backupCount=1, encoding="utf-8")
    lines.setFormatter(_Times("[%(asctime)s] %(message)s"))
    before = log.level
    log.addHandler(lines)
    log.setLevel(logging.DEBUG)
    try:
        yield DebugLog(log, hide)
    finally:
        log.removeHandler(lines)
        log.setLevel(before)
        with suppress(OSError):  # what could not be written before cannot be written now
            lines.close()
