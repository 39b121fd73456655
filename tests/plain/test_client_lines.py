"""Client commands typed while no question is open."""

import io

import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import Command, RestoreFiles, Rewind, Speak
from rookery.core.facts import Asked, CheckpointSaved, Event, TaskOpened, ToolStarted
from rookery.core.modes import ALWAYS_ASK
from rookery.core.queries import AskPermissions, AskRehearsal, Permissions, RestoreRehearsal
from rookery.plain.client_lines import ClientLines
from rookery.plain.screen import Screen
from rookery.protocol.attend import Focus
from rookery.protocol.client_commands import SlashLines
from support.scripted_host import ScriptedHost

pytestmark = pytest.mark.anyio

FACTS = (
    TaskOpened(text="go", mode="code", workspace="/w"),
    CheckpointSaved(call_id="c", id="1"),
    ToolStarted(call_id="c", tool="edit", title="Edit a.txt"),
)
UNDO = [RestoreFiles(task_id="t", to=1), Rewind(task_id="t", to=1)]
ASKED = "To the point before: Edit a.txt\nThe model forgets this and everything after it.\n"
RESTORED = "1 file restored:\n  ← a.txt\n1 file kept with someone else's changes:\n  = b.txt\n"


class Typing:
    """A client at work, on a host that answers what an undo would do."""

    def __init__(self, rehearsal: RestoreRehearsal) -> None:
        self.host = ScriptedHost()
        self.host.answer(AskRehearsal, rehearsal)
        self.out = io.StringIO()
        screen = Screen(self.out, colour=False, live=False)
        self.lines = ClientLines(self.host, SlashLines("t"), screen, Focus("t"))
        for number, fact in enumerate(FACTS, 1):
            self.lines.show(Event(number, 1, 1, fact))


@pytest.mark.parametrize(
    ("rehearsal", "shown", "sent"),
    [
        (RestoreRehearsal(written=("a.txt",), kept=("b.txt",)), ASKED + RESTORED, UNDO),
        (RestoreRehearsal(), f"{ASKED}No file changes.\n", UNDO),
        (
            RestoreRehearsal(problem="No checkpoints."),
            f"The files cannot be restored. No checkpoints.\n{ASKED}The files stay as they are.\n",
            UNDO[1:],
        ),
    ],
    ids=["files", "no files", "not possible"],
)
async def test_an_undo_at_work_shows_what_changes_and_waits_for_y(
    rehearsal: RestoreRehearsal, shown: str, sent: list[Command]
):
    typing = Typing(rehearsal)
    await typing.lines.send("/undo")
    assert typing.out.getvalue().startswith(shown)
    assert typing.host.sent == []
    await typing.lines.send("y")
    assert typing.host.sent == sent


async def test_other_words_and_a_new_question_withdraw_the_undo():
    typing = Typing(RestoreRehearsal(written=("a.txt",)))
    await typing.lines.send("/undo")
    await typing.lines.send("not yet")
    await typing.lines.send("y")
    await typing.lines.send("/undo")
    typing.lines.show(Event(4, 1, 1, Asked(ask_id="q", ask=AskKind.TOOL, text="")))
    await typing.lines.send("y")
    assert [each.text for each in typing.host.sent if isinstance(each, Speak)] == [
        "not yet",
        "y",
        "y",
    ]
    assert len(typing.host.sent) == 3


async def test_permissions_are_wrapped_at_words():
    host, out = ScriptedHost(), io.StringIO()
    host.answer(AskPermissions, Permissions())
    screen = Screen(out, colour=False, live=True)
    await ClientLines(host, SlashLines("t"), screen, Focus("t")).run("/permissions")
    assert all(len(line) < 80 for line in out.getvalue().splitlines())
    assert out.getvalue().split()[-len(ALWAYS_ASK.split()) :] == ALWAYS_ASK.split()
