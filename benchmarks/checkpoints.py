"""Measure checkpoints by workspace size: `python benchmarks/checkpoints.py`.

"Named" is the cost for a file tool, before and after its edit together; "everything" is the cost
for each shell command. Every round changes one file. Times depend on the disk.
"""

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from statistics import median, quantiles

import anyio

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from run import machine, sync_seconds, table

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.limits import Limits

SIZES = (1_000, 10_000, 50_000)
ROUNDS = 20
FILES_PER_FOLDER = 20
SETTLE_SECONDS = 2.5
"""Seconds after which the times of a new file are reliable enough to skip reading it again."""
IGNORED = "__pycache__/ *.pyc node_modules/ dist/ build/ .venv/ *.log /out .cache *.o *.so *.egg"
HEAD = ("files", "first", "everything", "… in a new process", "named, twice", "undo", "on disk")


async def measure(files: int) -> Sequence[str]:
    with tempfile.TemporaryDirectory() as folder:
        work, home = Path(folder) / "work", Path(folder) / "home"
        paths = create_files(work, files)

        def opened() -> ShadowCheckpoints:
            return ShadowCheckpoints(work, home, Limits())

        checkpoints = opened()
        first = await _seconds(checkpoints.save(None))
        disk = await checkpoints.usage()
        await anyio.sleep(SETTLE_SECONDS)
        await checkpoints.save(None)
        named, undo, everything, anew = list[float](), list[float](), list[float](), list[float]()
        for turn in range(ROUNDS):
            path = paths[turn * len(paths) // ROUNDS]
            edited = path.relative_to(work).as_posix()
            named.append(await _seconds(_edit(checkpoints, path, edited)))
            change(path)
            everything.append(await _seconds(checkpoints.save(None)))
        for path in paths[:3]:
            change(path)
            fresh = opened()
            anew.append(await _seconds(fresh.save(None)))
            before = await fresh.save(None)
            change(path)
            after = await fresh.save(None)
            undo.append(await _seconds(fresh.restore([(before.id, after.id)], overwrite=False)))
        shutil.rmtree(home)
        return (
            f"{files:,}",
            f"{first:.2f} s",
            _spread(everything),
            _ms(median(anew)),
            _spread(named),
            _ms(median(undo)),
            f"{disk / 1e6:.1f} MB",
        )


def create_files(work: Path, files: int) -> list[Path]:
    """Create source-like files of a few kilobytes, twenty to a folder, three folders deep."""
    words = random.Random(1)
    vocabulary = [f"{words.randrange(10**6):x}" for _ in range(3000)]
    paths: list[Path] = []
    for number in range(files):
        folder = number // FILES_PER_FOLDER
        path = work / f"part{folder % 20}" / f"area{folder // 20 % 20}" / f"folder{folder}"
        path.mkdir(parents=True, exist_ok=True)
        text = " ".join(words.choices(vocabulary, k=words.randrange(50, 900)))
        paths.append(path / f"module_{number}.py")
        paths[-1].write_text(text.replace(" 1", "\n    1"), encoding="utf-8")
    (work / ".gitignore").write_text(IGNORED.replace(" ", "\n"), encoding="utf-8")
    return paths


def change(path: Path) -> None:
    path.write_text(f"changed at {time.monotonic_ns()}\n", encoding="utf-8")


async def _edit(checkpoints: ShadowCheckpoints, path: Path, named: str) -> None:
    await checkpoints.save([named])
    change(path)
    await checkpoints.save([named])


async def _seconds(work: Awaitable[object]) -> float:
    began = time.monotonic()
    result = await work
    assert not getattr(result, "problem", ""), result
    return time.monotonic() - began


def _spread(times: Sequence[float]) -> str:
    return f"{_ms(median(times))} (p95 {_ms(quantiles(times, n=20)[-1])})"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def main() -> None:
    rows = [anyio.run(measure, files) for files in SIZES]
    print(table([HEAD, *rows]))
    with tempfile.TemporaryDirectory() as folder:
        sync = sync_seconds(Path(folder))
    print(f"\n{machine()}; one fsync takes {sync * 1000:.2f} ms.")


if __name__ == "__main__":
    main()
