"""What one message points at: each thing once, and not more than a model can use."""

from pathlib import Path

import pytest

from rookery.core.facts import Gathered, Noted
from rookery.core.instructions import SlashCommand
from rookery.core.limits import KIB, Limits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.errors import ToolError
from rookery.prompting.mention_contents import ROOM
from rookery.prompting.mention_lookup import MOST_COMMANDS, MOST_MENTIONS, MentionLookup
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio

COMMANDS = [SlashCommand(name=f"do{number}", content=f"Do {number}.") for number in range(30)]
NOTES = 40 * KIB
"""Room for the note that the limit is reached."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, Limits())


async def gathered(bench: Bench, text: str) -> Gathered:
    async def none(_: str) -> str:
        raise ToolError("There is no server.")

    async def act(action: Action) -> Outcome:
        permit = Permit(action.digest, reads=frozenset(action.reads), command=action.command)
        return await action.perform(permit)

    gatherer = MentionLookup(
        bench.root,
        commands=lambda: COMMANDS,
        unreadable=dict,
        skills=lambda mode: [],
        body=lambda skill: "",
        modes=lambda: ["code"],
        last_output=lambda: "",
        server_prompt=none,
    )
    return await gatherer(text, bench.context, act)


def reported(bench: Bench) -> list[str]:
    return [fact.text for fact in bench.facts if isinstance(fact, Noted)]


async def test_a_repeated_mention_is_attached_once(bench: Bench):
    (bench.root / "a.py").write_text("only once\n")
    text = (await gathered(bench, "@/a.py and @/a.py, /do1 with this /do1 and that")).text
    assert text.count("only once") == 1
    assert text.count("Do 1.") == 1
    assert "Arguments: with this /do1 and that" in text


async def test_mentions_beyond_the_limit_are_not_looked_up(bench: Bench):
    mentions = [f"@/gone{number}.txt" for number in range(5000)]
    text = (await gathered(bench, " ".join(mentions))).text
    assert text.count("<file_content") == MOST_MENTIONS
    more = f"{5000 - MOST_MENTIONS} more things that are mentioned were not looked up"
    assert more in text
    assert len(reported(bench)) == MOST_MENTIONS + 1
    assert len(text) < NOTES


async def test_very_long_names_are_shortened(bench: Bench):
    mentions = [f"@/{'x' * 3000}{number}" for number in range(MOST_MENTIONS)]
    text = (await gathered(bench, " ".join(mentions))).text
    assert len(text) < NOTES + MOST_MENTIONS * KIB
    assert max(map(len, reported(bench))) < KIB


async def test_full_folders_stay_within_the_attachment_limit(bench: Bench):
    for folder in range(12):
        for file in range(20):
            path = bench.root / f"folder{folder}" / f"{'long-name' * 20}{file}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text("some words\n" * 200)
    mentions = [f"@/folder{number}/" for number in range(12)]
    text = (await gathered(bench, " ".join(mentions))).text
    assert "more files of it. Not attached: the message already has enough attachments." in text
    assert len(text) < ROOM + NOTES


async def test_slash_commands_beyond_the_limit_are_not_run(bench: Bench):
    text = (await gathered(bench, " ".join(f"/{command.name}" for command in COMMANDS))).text
    assert text.count("<command ") == MOST_COMMANDS
    assert f"{len(COMMANDS) - MOST_COMMANDS} more commands and skills were not looked up" in text
