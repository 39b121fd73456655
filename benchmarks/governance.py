"""Measure governance: `python benchmarks/governance.py`, part of `make bench`.

The same task, which writes small files one after the other, runs alternately in a workspace with
intents and in one without, in one process. Measured is the time from the model's answer to the
result of its call, and to the next request, which also waits for the checkpoint after the write.
Before a governed write, the verdict and a journal entry are added; its record is written during the
checkpoint, and flushed while the model is called.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import anyio

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from run import machine, sync_seconds, table

from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice
from rookery.app.task_hooks import Consent
from rookery.core.commands import OpenTask
from rookery.core.facts import Asked, AssistantSpoke, RequestStarted, ToolFinished
from rookery.core.settings import Settings
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore

WRITES = 150
ROUNDS = 8
MAX_EXTRA = 3.0
"""Extra milliseconds allowed for a governed write, at the 95th percentile."""
INTENTS = """\
schema_version: 1
active_intents:
  - id: INT-001
    name: Write files
    status: IN_PROGRESS
    owned_scope: ["src/**"]
"""


def script(folder: Path, *, governed: bool) -> Path:
    lines = ["- calls: [{tool: select_active_intent, arguments: {intent_id: INT-001}}]"]
    body = "".join(f"def f{line}(x):\\n    return x + {line}\\n" for line in range(20))
    for number in range(WRITES):
        arguments = f'{{path: src/f{number}.py, content: "{body}"}}'
        lines.append(f"- calls: [{{tool: write_to_file, arguments: {arguments}}}]")
    lines.append("- calls: [{tool: attempt_completion, arguments: {result: done}}]")
    path = folder / "script.yaml"
    path.write_text("\n".join(lines if governed else lines[1:]) + "\n", encoding="utf-8")
    return path


class Times:
    """Milliseconds of each write, counted from the model's answer."""

    def __init__(self) -> None:
        self.result: list[float] = []
        self.request: list[float] = []

    def add(self, other: "Times") -> None:
        self.result += other.result
        self.request += other.request


async def measure(folder: Path, *, governed: bool) -> Times:
    work = folder / "work"
    work.mkdir(parents=True)
    if governed:
        (work / ".orchestration").mkdir()
        (work / ".orchestration" / "active_intents.yaml").write_text(INTENTS, encoding="utf-8")
    places = find_places({"ROOKERY_HOME": str(folder / "home")})
    lines = script(folder, governed=governed)
    choice = ModelChoice(provider="scripted", model=str(lines), base_url=None, key=None)
    consent = Consent(automatic=True, trusted=True)
    taken = Times()
    async with open_host(
        Settings(), choice, TaskStore(places), work, places, consent, choose=lambda _: choice
    ) as host:
        await host.send(OpenTask(task_id="t", text="Write"))
        answered = 0.0
        async for event in host.follow("t"):
            match event.fact:
                case AssistantSpoke():
                    answered = time.perf_counter()
                case ToolFinished():
                    taken.result.append((time.perf_counter() - answered) * 1000)
                case RequestStarted() if answered:
                    taken.request.append((time.perf_counter() - answered) * 1000)
                case Asked():
                    break
    kept = Times()  # skip the first, which fill caches, and the last
    kept.result, kept.request = taken.result[-WRITES + 9 : -1], taken.request[-WRITES + 10 :]
    return kept


def percentile(times: Sequence[float], part: int) -> float:
    return quantiles(times, n=100)[part - 1]


def rows_of(what: str, plain: Sequence[float], governed: Sequence[float]) -> list[tuple[str, ...]]:
    more = percentile(governed, 95) - percentile(plain, 95)
    return [
        (what, f"{median(plain):.2f} ms", f"{percentile(plain, 95):.2f} ms"),
        ("… for an intent", f"{median(governed):.2f} ms", f"{percentile(governed, 95):.2f} ms"),
        ("… more", f"{median(governed) - median(plain):.2f} ms", f"{more:.2f} ms"),
    ]


def main() -> None:
    plain, governed = Times(), Times()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            for times, kind in ((plain, False), (governed, True)):
                at = Path(folder) / f"{number}-{kind}"
                times.add(anyio.run(lambda at=at, kind=kind: measure(at, governed=kind)))
        sync = sync_seconds(Path(folder)) * 1000
    print(machine())
    print(f"one flush of a small file takes {sync:.2f} ms here\n")
    head = ("a write of a file, from the model's answer", "median", "95th percentile")
    result = rows_of("to its result", plain.result, governed.result)
    request = rows_of("to the next request", plain.request, governed.request)
    print(table([head, *result, *request]))
    more = percentile(governed.result, 95) - percentile(plain.result, 95)
    verdict = "ok" if more <= MAX_EXTRA else "over"
    print(
        f"\nwanted: at most {MAX_EXTRA:g} ms more to its result, at the 95th percentile: {verdict}"
    )


if __name__ == "__main__":
    main()
