"""A user who works with sessions while managers and sessions are killed.

The user starts, answers, stops and resumes sessions, and remembers the outcome of each message.
"""

import random
from collections import Counter
from contextlib import suppress
from itertools import count

import anyio

from rookery.core.queries import Asking
from rookery.errors import CommandRejected, RookeryError
from rookery.manager.handlers.session_handler import ANSWER_HELD
from rookery.manager.manager_socket import RemoteManager
from rookery.manager.requests import (
    ApproveAction,
    CancelSession,
    ListQuestions,
    ListSessions,
    RejectAction,
    ResumeSession,
    RetrySession,
    SendWords,
    StartSessions,
)
from rookery.manager.shown_rows import Done, InboxRow, SessionRow
from rookery.protocol.jsonrpc import Disconnected
from support.killed_manager import Ground
from support.manager_project import PATIENCE

UNDECIDED = "did not confirm your answer"
"""Part of a refusal after which the answer may still have arrived."""


class Words:
    """All messages of the user, each of them unique."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.reported: dict[str, str] = {}
        """Outcome of each message: taken, refused or unknown."""
        self.times: dict[str, int] = {}
        """How often a message must arrive, if not once."""

    def new(self, about: str) -> str:
        words = f"{about} #{next(self._numbers)}"
        self.reported[words] = "unknown"
        return words

    def like(self, what: str) -> list[str]:
        return [words for words, reported in self.reported.items() if reported == what]


class User:
    """Takes random actions, determined by `seed`; models pause `pause` seconds per word."""

    def __init__(self, ground: Ground, seed: int, *, pause: float = 0.04) -> None:
        self.ground = ground
        self._pause = pause
        self.words = Words()
        self.done: Counter[str] = Counter()
        self.removing: set[str] = set()
        """Worktrees that the user is removing."""
        self._chance = random.Random(seed)
        self._scripts = count(1)

    async def start(self, remote: RemoteManager, kind: str, *, versions: int = 1) -> None:
        """Start a session of a kind: streams, asks, commands or apart."""
        name = f"{kind}{next(self._scripts)}"
        prompt = self.words.new(f"Work as {name}")
        self.words.times[prompt] = versions
        model = self.ground.script(
            name,
            pause=self._pause / 4 if kind == "asks" else self._pause,
            commands=kind == "commands",
        )
        request = StartSessions(
            prompt=prompt,
            model=model,
            where="worktree" if kind == "apart" else "local",
            auto_approve=kind != "asks",
            versions=versions,
        )
        with suppress(Disconnected):
            await self.say(remote, request, prompt)

    async def go_on(self, remote: RemoteManager) -> None:
        """Take one action after the other, until the manager is gone."""
        with suppress(Disconnected):
            while True:
                await self._act(remote)
                await anyio.sleep(self._chance.uniform(0.0, 0.15))

    async def _act(self, remote: RemoteManager) -> None:
        sessions = (await remote.do(ListSessions())).sessions
        asked = await remote.do(ListQuestions())
        if asked and self._chance.random() < 0.5:
            await self._answer(remote, self._chance.choice(asked))
        elif sessions:
            await self._turn_to(remote, self._chance.choice(sessions))

    async def _answer(self, remote: RemoteManager, row: InboxRow) -> None:
        if row.state != "waiting_approval":
            return
        words = self.words.new("Answer")
        answer: Asking[object] = _approval(row, words)
        if self._chance.random() < 0.3:
            answer = RejectAction(session_id=row.session_id, ask_ts=row.ts, text=words)
        await self.say(remote, answer, words)

    async def _turn_to(self, remote: RemoteManager, row: SessionRow) -> None:
        session_id, chance = row.session_id, self._chance.random()
        if chance < 0.1 and row.flags.show_cancel_button:
            await self.say(remote, CancelSession(session_id=session_id))
        elif row.state == "error" and chance < 0.6:
            await self.say(remote, RetrySession(session_id=session_id))
        elif row.flags.show_resume_button and chance < 0.5:
            words = self.words.new("Go on")
            await self.say(remote, ResumeSession(session_id=session_id, text=words), words)
        elif row.state != "error":
            words = self.words.new("Hear")
            await self.say(remote, SendWords(session_id=session_id, text=words), words)

    async def say(self, remote: RemoteManager, request: Asking[object], words: str = "") -> None:
        try:
            reply = await remote.do(request)
        except Disconnected:
            raise
        except RookeryError as refusal:
            if UNDECIDED not in str(refusal):
                self._note(words, "refused", request)
        else:
            held = isinstance(reply, Done) and ANSWER_HELD in reply.notes
            self._note(words, "unknown" if held else "taken", request)

    def _note(self, words: str, reported: str, request: object) -> None:
        self.done[f"{type(request).__name__} {reported}"] += 1
        if words:
            self.words.reported[words] = reported

    async def settle(self, remote: RemoteManager) -> None:
        """Complete everything that can be completed."""
        until = anyio.current_time() + 2 * PATIENCE
        while waiting := [row for row in await _all(remote) if not self._rests(row)]:
            assert anyio.current_time() < until, f"it does not come to its end: {waiting}"
            for row in waiting:
                await self._help(remote, row)
            await anyio.sleep(0.1)

    def _rests(self, row: SessionRow) -> bool:
        """Whether the session is complete, or failed before it could run and can only be read."""
        if row.state == "error" and row.session_id not in self.ground.folders():
            return True
        arriving = any(each.state != "sent" for each in row.undelivered)
        return row.state == "completed" and not arriving

    async def _help(self, remote: RemoteManager, row: SessionRow) -> None:
        request: Asking[object] | None = None
        if row.state == "waiting_approval":
            for each in await remote.do(ListQuestions()):
                if each.session_id == row.session_id:
                    request = _approval(each)
        elif row.state == "error":
            request = RetrySession(session_id=row.session_id)
        elif row.flags.show_resume_button:
            request = ResumeSession(session_id=row.session_id)
        if request:
            with suppress(CommandRejected):  # its state has changed meanwhile
                await remote.do(request)


def _approval(row: InboxRow, words: str = "") -> ApproveAction:
    return ApproveAction(session_id=row.session_id, ask_ts=row.ts, digest=row.digest, text=words)


async def _all(remote: RemoteManager) -> tuple[SessionRow, ...]:
    return (await remote.do(ListSessions(archived=True))).sessions
