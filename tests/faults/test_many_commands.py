"""Many commands of every kind at once: no end is missed, no byte is lost, no process survives.

Four of each kind always, two hundred with ROOKERY_TORTURE=1.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec import Struct

from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.workspace.terminal import Terminal
from support.chance import new_seed
from support.text_process import processes_with

pytestmark = pytest.mark.anyio

OF_EACH_KIND = 200 if os.environ.get("ROOKERY_TORTURE") else 4
AT_ONCE = 8
SECONDS = 600
LIMITS = Limits(command_grace=0.3)
FORGIVING = Limits(command_grace=20)
"""For those whose last words come after the shell has ended."""


class Deed(Struct, frozen=True):
    script: str
    written: bytes
    code: int
    limits: Limits = LIMITS


def writes_lines(dice: random.Random, mark: str) -> Deed:
    count, code = dice.randrange(0, 3_000), dice.randrange(256)
    lines = b"".join(b"%d\n" % number for number in range(1, count + 1))
    return Deed(f"seq {count}; exit {code}", lines, code)


def writes_one_long_line(dice: random.Random, mark: str) -> Deed:
    size = dice.randrange(1, 400_000)
    return Deed(f"head -c {size} /dev/zero", bytes(size), 0)


def writes_no_text(dice: random.Random, mark: str) -> Deed:
    data = dice.randbytes(dice.randrange(1, 60))
    return Deed("printf '" + "".join(f"\\x{byte:02x}" for byte in data) + "'", data, 0)


def takes_a_while(dice: random.Random, mark: str) -> Deed:
    pause = dice.random() / 20
    return Deed(f"printf a; sleep {pause}; printf b >&2; sleep {pause}; exit 5", b"ab", 5)


def dies_of_a_signal(dice: random.Random, mark: str) -> Deed:
    number = dice.choice([1, 2, 6, 9, 11, 15])
    return Deed(f"printf last; kill -{number} $$; sleep 9", b"last", 128 + number)


def closes_its_output_early(dice: random.Random, mark: str) -> Deed:
    return Deed(f"printf x; exec >&- 2>&-; sleep {dice.random() / 20}; exit 6", b"x", 6)


def writes_after_its_parent_has_ended(dice: random.Random, mark: str) -> Deed:
    late = f"(sleep {dice.random() / 20}; printf late)"
    return Deed(f"printf early; ({late} &); exit 7", b"earlylate", 7, FORGIVING)


def leaves_a_child_behind(dice: random.Random, mark: str) -> Deed:
    return Deed(f"sleep {mark} & (sleep {mark} &); printf up; exit 8", b"up", 8)


def leaves_a_child_in_a_session_of_its_own(dice: random.Random, mark: str) -> Deed:
    child = f"env -i setsid sh -c 'setsid sleep {mark} & sleep {mark}' > /dev/null 2>&1"
    return Deed(f"({child} &); printf up; exit 9", b"up", 9)


def leaves_a_child_that_does_not_listen(dice: random.Random, mark: str) -> Deed:
    return Deed(f"(trap '' TERM HUP; setsid sleep {mark} &); printf up; exit 10", b"up", 10)


KINDS: list[Callable[[random.Random, str], Deed]] = [
    writes_lines,
    writes_one_long_line,
    writes_no_text,
    takes_a_while,
    dies_of_a_signal,
    closes_its_output_early,
    writes_after_its_parent_has_ended,
    leaves_a_child_behind,
    leaves_a_child_in_a_session_of_its_own,
    leaves_a_child_that_does_not_listen,
]


class Kept:
    id = "cmd-1.txt"

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        pass


async def test_many_parallel_commands_keep_their_exit_output_and_children(
    tmp_path: Path, mark: str
):
    dice = random.Random(new_seed())
    todo = [kind(dice, mark) for kind in KINDS * OF_EACH_KIND]
    dice.shuffle(todo)
    files, children = sorted(os.listdir("/proc/self/fd")), own_children()
    wrong: list[str] = []

    async def work() -> None:
        while todo:
            deed = todo.pop()
            problem = await problem_with(deed, tmp_path, impatience=dice.choice([0, 0, 0.001]))
            wrong.extend([problem] if problem else [])

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(work)
    assert wrong == []
    assert processes_with(mark) == []
    assert sorted(os.listdir("/proc/self/fd")) == files
    assert own_children() <= children


async def problem_with(deed: Deed, folder: Path, impatience: float) -> str:
    kept, text = Kept(), ""
    permit = Permit(digest="", command=deed.script)
    async with Terminal(folder, deed.limits).run(permit, seconds=60, keep=kept) as started:
        ended = False
        while not ended:
            with anyio.CancelScope() as wait:
                if impatience:
                    wait.deadline = anyio.current_time() + impatience
                async for piece in started.output():
                    text += piece
                ended = True
        end = await started.end()
    expected = (deed.code, deed.written, deed.written.decode(errors="replace"))
    got = (end.exit_code, bytes(kept.data), text)
    names = ("exit code", "output on disk", "output shown")
    differing = [name for name, a, b in zip(names, expected, got, strict=True) if a != b]
    return f"{deed.script!r}: {', '.join(differing)}: {got[0]} {len(got[1])}" if differing else ""


def own_children() -> set[str]:
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for each in lists for pid in each.read_text(encoding="ascii").split()}
