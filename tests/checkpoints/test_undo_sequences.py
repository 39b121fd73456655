"""All changes of an agent can be undone to the byte, and the user's changes stay.

Random work is done in a small workspace: by tools, by commands, and by a person in between. A
plain copy of everything, taken by the test itself, says what each of them did. All of it:

    ROOKERY_TORTURE=1 python -m pytest tests/checkpoints/test_undo_sequences.py --workers auto
"""

import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.limits import Limits
from rookery.engine.ports.workspace import Restored
from rookery.platform.paths import visible
from support.stored_checkpoints import content_at, files_at

pytestmark = pytest.mark.anyio

SEQUENCES = 1000 if os.environ.get("ROOKERY_TORTURE") else 3
BATCH = 3
NAMES = ["a.txt", "b", "ünïcödé 文.md", "new\nline", "sp ace", "-dash", "\udcff\udcfe.bin", "B.TXT"]
FOLDERS = ["", "src/", "src/deep/", "nested/", "d\nd/", "\udce9t\udce9/"]
MODES = [0o644, 0o600, 0o755, 0o444, 0o640, 0o664]
FOLDER_MODES = [0o755, 0o700, 0o775, 0o2750]
IGNORED = ["*.txt", "src/", "deep", "*", "!a.txt", "b", "/nested", "agents", "*.bin", "sp ace"]
SMALL = 4000
"""Bytes of a file that checkpoints keep, where some files grow larger."""

Thing = tuple[str, int, bytes]
Picture = dict[str, Thing]
"""Everything in the workspace: its kind, its rights, what is in it."""


def picture(work: Path) -> Picture:
    above = len(f"{work}/")
    return {entry.path[above:]: _thing(entry) for entry in _walk(str(work))}


def _thing(entry: os.DirEntry[str]) -> Thing:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return "link", 0, os.fsencode(os.readlink(entry.path))
    if stat.S_ISDIR(mode):
        return "folder", stat.S_IMODE(mode), b""
    if stat.S_ISFIFO(mode):
        return "pipe", stat.S_IMODE(mode), b""
    with open(entry.path, "rb") as file:
        return "file", stat.S_IMODE(mode), file.read()


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    """Everything but any .git. Half of the time of these tests would go into paths as objects."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name == ".git":
            continue
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)


def git_folders(work: Path) -> dict[str, str]:
    """The hash of every file in any .git."""
    return {
        os.path.join(top, name): sha256(Path(top, name).read_bytes()).hexdigest()
        for repository in (work / ".git", work / "nested" / ".git")
        for top, _, names in os.walk(repository)
        for name in names
    }


class Hands:
    """Makes random changes below a folder."""

    def __init__(self, work: Path, luck: random.Random, below: str = "") -> None:
        self._work = work
        self._luck = luck
        self._below = below

    def place(self) -> Path:
        return self._work / (self._below + self._luck.choice(FOLDERS) + self._luck.choice(NAMES))

    def edit(self, path: Path) -> None:
        """What a file tool does: write or remove one file, with the folders it needs."""
        if path.is_file() and not path.is_symlink() and self._luck.random() < 0.2:
            path.unlink()
        elif not path.is_dir():
            self._write(path)

    def work(self) -> None:
        doings: list[Callable[[], None]] = [
            *[lambda: self._write(self.place())] * 4,
            self._append,
            self._append,
            self._rename,
            self._chmod,
            self._chmod,
            self._remove,
            self._remove,
            self._link,
            self._swap,
            self._make_folder,
        ]
        for _ in range(self._luck.randrange(1, 5)):
            try:
                self._luck.choice(doings)()
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # some things cannot be done where something else is

    def _data(self) -> bytes:
        return self._luck.randbytes(self._luck.choice([0, 1, 30, 3000])) + self._luck.choice(
            [b"", b"\r\n", b"$Id$\n", b"\xef\xbb\xbf"]
        )

    def _things(self) -> list[Path]:
        below = self._work / self._below
        return [Path(each.path) for each in _walk(str(below))] if below.is_dir() else []

    def _some(self, wanted: Callable[[Path], bool] = lambda _: True) -> Path | None:
        found = [path for path in self._things() if wanted(path)]
        return self._luck.choice(found) if found else None

    def _write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            return
        path.unlink(missing_ok=True)
        path.write_bytes(self._data())
        path.chmod(self._luck.choice(MODES))

    def _append(self) -> None:
        path = self._some(lambda path: path.is_file() and os.access(path, os.W_OK))
        if path:
            with path.open("ab") as file:
                file.write(b"more\n")

    def _rename(self) -> None:
        path = self._some(lambda path: not _has_repository(path))
        target = self.place()
        if path and path not in target.parents and not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)

    def _chmod(self) -> None:
        path = self._some(lambda path: not path.is_symlink())
        if path:
            path.chmod(self._luck.choice(FOLDER_MODES if path.is_dir() else MODES))

    def _remove(self) -> None:
        path = self._some(lambda path: not _has_repository(path))
        if path and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path:
            path.unlink()

    def _link(self) -> None:
        path = self.place()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            path.symlink_to(self._luck.choice(["a.txt", "../..", "/etc/passwd", "src", "gone"]))

    def _swap(self) -> None:
        """A file becomes a folder, or a folder a file."""
        path = self._some(lambda path: not _has_repository(path))
        if path and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
            path.write_bytes(self._data())
        elif path:
            path.unlink()
            path.mkdir()
            (path / "inner").write_bytes(self._data())

    def _make_folder(self) -> None:
        self.place().mkdir(parents=True, exist_ok=True)


class RoughHands(Hands):
    """Also makes changes that are hard for checkpoints."""

    def __init__(self, work: Path, luck: random.Random, below: str = "") -> None:
        super().__init__(work, luck, below)
        self.ignores = luck.random() < 0.7
        """If not, all that was done must be undone."""

    def work(self) -> None:
        super().work()
        doings = [self._grow, self._make_pipe, self._remove]
        if self.ignores:
            doings += [self._ignore, self._ignore, self._ignore_nothing, self._track]
        for _ in range(self._luck.randrange(3)):
            self._luck.choice(doings)()

    def _grow(self) -> None:
        path = self._some(_is_plain)
        if path:
            path.chmod(0o644)
            with path.open("ab") as file:
                file.write(self._luck.randbytes(SMALL + 1))

    def _make_pipe(self) -> None:
        path = self._some(_is_plain)
        if path:
            path.unlink()
            os.mkfifo(path)

    def _ignore(self) -> None:
        folder = self._work / self._luck.choice(["", "nested", "src"])
        file = folder / ".gitignore"
        if folder.is_dir() and not folder.is_symlink() and (_is_plain(file) or not file.exists()):
            text = file.read_text("utf-8", "replace") if file.exists() else ""
            file.unlink(missing_ok=True)
            file.write_text(f"{text}{self._luck.choice(IGNORED)}\n", "utf-8")

    def _ignore_nothing(self) -> None:
        file = self._some(lambda path: path.name == ".gitignore" and _is_plain(path))
        if file:
            file.unlink()

    def _track(self) -> None:
        path = self._some(_is_plain)
        if path:
            track(self._work, path)


def track(work: Path, path: Path) -> None:
    """Have git track it though it be ignored; it may refuse to, beyond a link for example."""
    inside = path.is_relative_to(work / "nested")
    repository = work / "nested" if inside else work
    subprocess.run(
        ["git", "-C", repository, "add", "-f", "--", os.fsencode(path.relative_to(repository))],
        capture_output=True,
    )


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _has_repository(path: Path) -> bool:
    return path.is_dir() and any(".git" in folders for _, folders, _ in os.walk(path))


def build(work: Path, luck: random.Random) -> None:
    """A workspace that is a repository and has another one in it."""
    work.mkdir()
    for folder in (work, work / "nested"):
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "-q", "--template=", folder], check=True)
        (folder / ".git" / "index").write_bytes(luck.randbytes(100))
    hands = Hands(work, luck)
    for _ in range(6):
        hands.edit(hands.place())


class Agent:
    """Works with checkpoints around every step, as the engine does it."""

    def __init__(
        self,
        work: Path,
        home: Path,
        luck: random.Random,
        hands: Hands,
        limits: Limits,
    ) -> None:
        self.checkpoints = ShadowCheckpoints(work, home, limits)
        self._work = work
        self._luck = luck
        self._hands = hands
        self.steps: list[tuple[str, str]] = []
        self.pictures: list[tuple[Picture, Picture]] = []

    async def step(self) -> None:
        by_tool = self._luck.random() < 0.5
        places = [self._hands.place() for _ in range(self._luck.randrange(1, 3))]
        places = [place for place in places if self._reachable(place)]
        named = [str(place.relative_to(self._work)) for place in places] if by_tool else None
        seen = picture(self._work)
        before = await self.checkpoints.save(named)
        if by_tool:
            for place in places:
                if self._reachable(place):
                    self._hands.edit(place)
        else:
            self._hands.work()
        after = await self.checkpoints.save(named)
        assert (before.problem, after.problem) == ("", "")
        self.steps.append((before.id, after.id))
        self.pictures.append((seen, picture(self._work)))

    def _reachable(self, path: Path) -> bool:
        """Tools name files by where they really are."""
        parents = [p for p in path.parents if p.is_relative_to(self._work)]
        return not path.is_symlink() and all(
            not p.is_symlink() and (p.is_dir() or not p.exists()) for p in parents
        )

    async def back_to(self, point: int) -> Restored:
        restored = await self.checkpoints.restore(self.steps[point:], overwrite=False)
        assert restored.problem == ""
        return restored


def valid(home: Path) -> None:
    for repository in home.glob("*.git"):
        command = ["git", f"--git-dir={repository}", "fsck", "--full", "--strict", "--no-dangling"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def seeds() -> list[range]:
    return [range(start, start + BATCH) for start in range(0, SEQUENCES, BATCH)]


def some_of(tmp_path: Path, seed: int) -> tuple[Path, Path, random.Random]:
    luck = random.Random(seed)
    folder = tmp_path / str(seed)
    folder.mkdir()
    build(folder / "work", luck)
    return folder / "work", folder / "home", luck


@pytest.mark.parametrize("batch", seeds(), ids=lambda batch: f"6,8 from {batch.start}")
async def test_all_changes_by_the_agent_are_undone_exactly(batch: range, tmp_path: Path):
    """A person works in a folder of their own meanwhile, of which nothing may change."""
    for seed in batch:
        work, home, luck = some_of(tmp_path, seed)
        repositories = git_folders(work)
        agent = Agent(work, home, luck, Hands(work, luck, "agents/"), Limits())
        person = Hands(work, luck, "mine/")
        for _ in range(luck.randrange(2, 9)):
            if luck.random() < 0.4:
                person.work()
            await agent.step()
        if luck.random() < 0.5:
            person.work()
        point = luck.randrange(len(agent.steps))
        now, then = picture(work), agent.pictures[point][0]
        restored = await agent.back_to(point)
        expected = {path: thing for path, thing in now.items() if not path.startswith("agents")}
        expected |= {path: thing for path, thing in then.items() if path.startswith("agents")}
        assert picture(work) == expected, f"seed {seed}"
        assert restored.kept == ()
        again = await agent.checkpoints.restore(
            [(restored.before, restored.after)], overwrite=False
        )
        assert (picture(work), again.kept, again.problem) == (now, (), ""), f"seed {seed}"
        assert git_folders(work) == repositories
        valid(home)


@pytest.mark.parametrize("batch", seeds(), ids=lambda batch: f"8 from {batch.start}")
async def test_user_changes_to_the_same_files_are_kept_and_reported(batch: range, tmp_path: Path):
    for seed in batch:
        work, home, luck = some_of(tmp_path, seed)
        repositories = git_folders(work)
        agent = Agent(work, home, luck, Hands(work, luck), Limits())
        person = Hands(work, luck)
        for _ in range(luck.randrange(2, 7)):
            await agent.step()
            if luck.random() < 0.4:
                person.work()
        point = luck.randrange(len(agent.steps))
        now = picture(work)
        rehearsed = await agent.checkpoints.restore(
            agent.steps[point:], overwrite=False, rehearse=True
        )
        assert picture(work) == now
        restored = await agent.back_to(point)
        compare(agent.pictures[point:], now, picture(work), restored, f"seed {seed}")
        assert set(rehearsed.kept) <= set(restored.kept)
        again = await agent.checkpoints.restore(
            [(restored.before, restored.after)], overwrite=False
        )
        assert (picture(work), again.kept, again.problem) == (now, (), ""), f"seed {seed}"
        assert git_folders(work) == repositories
        valid(home)


def compare(
    steps: list[tuple[Picture, Picture]],
    now: Picture,
    result: Picture,
    reported: Restored,
    seed: str,
) -> None:
    """Every path is as it was before the steps, or as it is now; which of them the copies say."""
    for path in (
        now.keys() | result.keys() | {path for pair in steps for each in pair for path in each}
    ):
        touched = [(old.get(path), new.get(path)) for old, new in steps]
        touched = [(old, new) for old, new in touched if old != new]
        if not touched:
            assert result.get(path) == now.get(path), (seed, path)
            continue
        target, left = touched[0][0], touched[-1][1]
        whole = all(a[1] == b[0] for a, b in pairwise(touched))
        if now.get(path) == target:
            assert result.get(path) == target, (seed, path)
        elif not whole or now.get(path) != left:
            assert result.get(path) == now.get(path), (seed, path)
            assert visible(path) in reported.kept, (seed, path)
        elif visible(path) in reported.kept:
            assert result.get(path) == now.get(path), (seed, path)
            assert in_the_way(path, result, target), (seed, path)
        else:
            assert result.get(path) == target, (seed, path)


def in_the_way(path: str, result: Picture, target: Thing | None) -> bool:
    """Whether something that had to stay made it impossible to put this back."""
    if any(other.startswith(f"{path}/") for other in result):
        return True
    above = [path[:at] for at, character in enumerate(path) if character == "/"]
    return target is not None and any(result.get(each, ("",))[0] != "folder" for each in above)


@pytest.mark.parametrize("batch", seeds(), ids=lambda batch: f"6 from {batch.start}")
async def test_saved_content_is_never_lost(batch: range, tmp_path: Path):
    """Ignore files come and go, files become large or pipes, and git tracks what is ignored."""
    for seed in batch:
        work, home, luck = some_of(tmp_path, seed)
        hands = RoughHands(work, luck)
        agent = Agent(work, home, luck, hands, Limits(checkpoint_file_bytes=SMALL))
        lines = luck.choice(["*", "src/\nnested/", "a.txt"]) if hands.ignores else ""
        tracked = track_some(work, luck, lines)
        saved = await agent.checkpoints.save(None)
        assert tracked <= (await files_at(agent.checkpoints, saved.id)).keys(), f"seed {seed}"
        for _ in range(luck.randrange(2, 9)):
            await agent.step()
        point = luck.randrange(len(agent.steps))
        now = picture(work)
        known = await files_at(agent.checkpoints, agent.steps[point][0])
        restored = await agent.checkpoints.restore(agent.steps[point:], overwrite=False)
        result = picture(work)
        then = agent.pictures[point][0]
        demand_all_reported(then, result, set(known), restored, f"seed {seed}")
        await demand_nothing_lost(agent, home, now, result, restored.before, f"seed {seed}")
        if not hands.ignores:
            demand_all_back(then, result, restored, f"seed {seed}")
        valid(home)


def track_some(work: Path, luck: random.Random, ignored: str) -> set[str]:
    """Have git track some of what is there, ignored or not, and change that."""
    for folder in (work, work / "nested"):
        (folder / ".git" / "index").unlink()
    (work / ".gitignore").write_text(f"{ignored}\n")
    tracked: set[str] = set()
    for path in [Path(each.path) for each in _walk(str(work))]:
        below_nested = path.is_relative_to(work / "nested")
        if _is_plain(path) and not below_nested and luck.random() < 0.5:
            path.chmod(0o644)
            track(work, path)
            path.write_bytes(luck.randbytes(50))
            tracked.add(str(path.relative_to(work)))
    return tracked


def demand_all_reported(
    then: Picture, result: Picture, saved: set[str], reported: Restored, seed: str
) -> None:
    """Check that each saved path is back, or reported as kept for a new ignored file."""
    for path, thing in then.items():
        if path in saved and result.get(path) != thing:
            assert visible(path) in reported.kept, (seed, path)


def demand_all_back(then: Picture, result: Picture, reported: Restored, seed: str) -> None:
    """All is as it was but what could not be kept, and that is named."""
    for path in then.keys() | result.keys():
        was = then.get(path)
        if result.get(path) == was:
            continue
        if was and (was[0] == "pipe" or len(was[2]) > SMALL):
            assert visible(path) in reported.problem, (seed, path)
        else:
            assert visible(path) in reported.kept, (seed, path)
            assert in_the_way(path, result, was), (seed, path)


async def demand_nothing_lost(
    agent: Agent, home: Path, now: Picture, result: Picture, before: str, seed: str
) -> None:
    """All content from before the undo is still there, in its checkpoint, or kept aside."""
    aside = home / "set-aside"
    kept = {path.read_bytes() for path in aside.iterdir()} if aside.exists() else set()
    for path, thing in now.items():
        if thing[0] == "file" and result.get(path) != thing and thing[2] not in kept:
            assert await content_at(agent.checkpoints, before, path) == thing[2], (seed, path)
