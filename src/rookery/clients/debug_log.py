"""A debug log: every fact and every change of the agent's state, one line each."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from rookery import NAME
from rookery.core.agent_state import AgentState, detect
from rookery.core.facts import Event
from rookery.core.view import View, see

LARGEST = 10 * 1024 * 1024
PREVIEW = 50


class DebugLog:
    """Shows a task to the log. Keys are in no fact, so none can get here."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._view = View()
        self._state = AgentState.NO_TASK

    def show(self, event: Event) -> None:
        self._view = see(self._view, event)
        agent = detect(self._view.messages)
        last = agent.last_message
        noted = {
            "seq": event.seq,
            "messages": len(self._view.messages),
            "last": f"{last.type}:{last.ask or last.say}" if last else None,
            "partial": last.partial if last else None,
            "preview": (last.text or "")[:PREVIEW] if last and not last.partial else None,
        }
        self._log.debug("[Facts] %s: %s", type(event.fact).__name__, json.dumps(noted))
        if agent.state is not self._state:
            flags = {
                "ask": agent.current_ask,
                "waiting": agent.is_waiting_for_input,
                "running": agent.is_running,
                "streaming": agent.is_streaming,
            }
            self._log.debug("[State] %s → %s: %s", self._state, agent.state, json.dumps(flags))
            self._state = agent.state

    def show_of_child(self, task_id: str, event: Event) -> None:
        self._log.debug("[Facts of %s] %s: %d", task_id, type(event.fact).__name__, event.seq)


class _PrivateFile(RotatingFileHandler):
    """A log that holds what a user's files and commands said is for that user only."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return open(descriptor, "a", encoding="utf-8")


@contextmanager
def open_debug_log(file: Path) -> Iterator[DebugLog]:
    """A log at `file`, rotated; whatever the product's own modules note goes there too."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = logging.getLogger(NAME)
    lines = _PrivateFile(file, maxBytes=LARGEST, backupCount=1, encoding="utf-8")
    lines.setFormatter(logging.Formatter("[%(asctime)s] %(message)s"))
    before = log.level
    log.addHandler(lines)
    log.setLevel(logging.DEBUG)
    try:
        yield DebugLog(log)
    finally:
        log.removeHandler(lines)
        log.setLevel(before)
        lines.close()
