"""A level that the user lowers while the agent works."""

from pathlib import Path

import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import SwitchApproval
from rookery.core.facts import Asked
from rookery.core.modes import Level
from rookery.core.settings import Settings
from rookery.protocol.attend import Response, Say
from support.agent_sessions import TASK, Watch, say, script, tool
from support.protocol_hosts import workplace

pytestmark = pytest.mark.anyio


async def test_a_formatter_that_the_level_allowed_asks_after_the_level_is_lowered(tmp_path: Path):
    async def lower(asked: Asked) -> Response:
        if asked.ask is AskKind.FOLLOWUP:
            await host.send(SwitchApproval(task_id=TASK, level=Level.ASK))
            return Say("message", "Go on.")
        questions.append(asked.title)
        return Say("yes")

    questions: list[str] = []
    question = tool("ask_followup_question", question="More?", follow_up=[{"text": "yes"}])
    first, second = (tool("write_to_file", path=each, content="x\n") for each in ("a.txt", "b.txt"))
    parts = script(first, question, second, say("Done."))
    settings = Settings(formatters=("*.txt: touch {file}",))
    async with workplace(tmp_path, parts, settings, level=Level.AUTO) as host:
        await Watch(host, lower).play()
    assert questions == ["Create b.txt", "Format b.txt"]
