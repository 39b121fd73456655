"""Measure the code index: `python benchmarks/code_index.py [files]`.

"First" indexes all files of a new workspace. "Changed" is a search after one file was changed,
"unchanged" a search without changes; both check all files. "Query" is the search alone. Only full
text is measured, because vectors take as long as their server takes. Times depend on the disk.
"""

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import anyio

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from run import machine, table

from rookery.code_index.chunks import fts_query
from rookery.code_index.code_index import CodeIndex
from rookery.code_index.syntax import SyntaxReader
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.source_files import WorkspaceSources

FILES = 20_000
ROUNDS = 20
FILES_PER_FOLDER = 20
HEAD = ("files", "source", "first", "files/s", "changed", "unchanged", "query", "on disk")
EVERYTHING = Permit("", reads=frozenset(["."]))
SETTLE_SECONDS = 2.5
"""Seconds after which the times of a new file are reliable enough to skip reading it again."""


async def measure(files: int) -> Sequence[str]:
    with tempfile.TemporaryDirectory() as folder:
        work, cache = Path(folder) / "work", Path(folder) / "cache"
        chance = random.Random(1)
        vocabulary = _vocabulary(chance)
        paths = create_files(work, files, chance, vocabulary)
        await anyio.sleep(SETTLE_SECONDS)
        syntax = SyntaxReader()
        sources = WorkspaceSources(WorkspaceFiles(work, Limits()), Limits())
        index = CodeIndex(cache, sources, syntax, patience=3600)

        async def search() -> float:
            query = " ".join(chance.choices(vocabulary, k=4))
            began = time.monotonic()
            found = await index.search(query, ".", EVERYTHING, lambda path: True)
            assert found.hits
            assert not found.notes, found.notes
            return time.monotonic() - began

        first = await search()
        unchanged = [await search() for _ in range(ROUNDS)]
        changed: list[float] = []
        for number in range(ROUNDS):
            path = paths[number * len(paths) // ROUNDS]
            path.write_text(_module(chance, vocabulary), encoding="utf-8")
            changed.append(await search())
        queries = [_answer(index, " ".join(chance.choices(vocabulary, k=4))) for _ in range(ROUNDS)]
        index.close()
        syntax.close()
        source = sum(path.stat().st_size for path in paths)
        disk = sum(file.stat().st_size for file in cache.iterdir())
        return (
            f"{files:,}",
            f"{source / 1e6:.1f} MB",
            f"{first:.1f} s",
            f"{files / first:.0f}",
            _spread(changed),
            _spread(unchanged),
            _spread(queries),
            f"{disk / 1e6:.1f} MB",
        )


def _answer(index: CodeIndex, query: str) -> float:
    """Seconds to rank the results and read the excerpts."""
    began = time.monotonic()
    expression = fts_query(query)
    ranked = index._database.ask(lambda store: index._ranked(store, expression, (), ""))
    index._shown(ranked, lambda path: True)
    return time.monotonic() - began


def create_files(
    work: Path, files: int, chance: random.Random, vocabulary: Sequence[str]
) -> list[Path]:
    """Create modules of a few kilobytes with classes, functions and text, three folders deep."""
    paths: list[Path] = []
    for number in range(files):
        folder = number // FILES_PER_FOLDER
        path = work / f"part{folder % 20}" / f"area{folder // 20 % 20}" / f"folder{folder}"
        path.mkdir(parents=True, exist_ok=True)
        paths.append(path / f"{chance.choice(vocabulary)}_{number}.py")
        paths[-1].write_text(_module(chance, vocabulary), encoding="utf-8")
    return paths


def _vocabulary(chance: random.Random) -> list[str]:
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    return ["".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(5000)]


def _module(chance: random.Random, vocabulary: Sequence[str]) -> str:
    def words(count: int) -> str:
        return " ".join(chance.choices(vocabulary, k=count))

    parts = [f'"""{words(12)}."""\n\nimport {words(1)}\n']
    for _ in range(chance.randint(1, 3)):
        parts.append(f"\n\nclass {words(2).title().replace(' ', '')}:\n    '''{words(10)}.'''\n")
        for _ in range(chance.randint(1, 5)):
            head = f"\n    def {words(2).replace(' ', '_')}(self, {words(2).replace(' ', ', ')}):\n"
            body = f"        {words(1)} = self.{words(1)}({words(1)}, {words(1)})\n"
            parts += [head, *[body] * chance.randint(1, 8), f"        return {words(1)}\n"]
    return "".join(parts)


def _spread(times: Sequence[float]) -> str:
    return f"{_ms(median(times))} (p95 {_ms(quantiles(times, n=20)[-1])})"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    print(table([HEAD, anyio.run(measure, files)]))
    print(f"\n{machine()}.")


if __name__ == "__main__":
    main()
