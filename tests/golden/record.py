"""Record the golden files anew.

    python tests/golden/record.py [FOLDER/NAME ...] [exit_codes.json]

WARNING: these files were recorded once, by the version before the code was moved, and prove that
nothing changed since. Whoever records them anew gives that proof up. Do so only for a change of
format that is intended, only for the files it is about, and say in the commit what changed and
why old sessions and ledgers still open. Never do it to make a failing test pass.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "src")]

from golden.exit_codes import exit_codes  # noqa: E402
from golden.frozen import freeze, thaw  # noqa: E402
from golden.ledgers import LEDGERS, asked  # noqa: E402
from golden.resuming import resumed  # noqa: E402
from golden.scenarios import SCENARIOS, prepare  # noqa: E402
from golden.sessions import SESSIONS  # noqa: E402
from golden.streams import transcript  # noqa: E402
from support.terminal_session import Installed  # noqa: E402

EXIT_CODES = "exit_codes.json"


def main(names: list[str]) -> None:
    for folder, known, record in (
        ("streams", SCENARIOS, record_stream),
        ("journals", SESSIONS, record_session),
        ("ledgers", LEDGERS, record_ledger),
    ):
        (HERE / folder).mkdir(exist_ok=True)
        for name in known:
            if not names or f"{folder}/{name}" in names:
                print(f"{folder}/{name}")
                record(name)
    if not names or EXIT_CODES in names:
        with _somewhere() as folder:
            _write(HERE / EXIT_CODES, exit_codes(folder))


def record_stream(name: str) -> None:
    with _somewhere() as folder:
        lines = transcript(name, folder)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (HERE / "streams" / f"{name}.jsonl").write_text(text, encoding="utf-8")


def record_session(name: str) -> None:
    file = HERE / "journals" / f"{name}.json"
    with _somewhere() as folder:
        rookery = prepare(Installed(folder))
        SESSIONS[name](rookery)
        freeze(rookery, file)
    with _somewhere() as folder:
        expected = resumed(thaw(file, folder))
    _write(HERE / "journals" / f"{name}.expected.json", expected)


def record_ledger(name: str) -> None:
    file = HERE / "ledgers" / f"{name}.json"
    with _somewhere() as folder:
        rookery = prepare(Installed(folder))
        LEDGERS[name](rookery)
        freeze(rookery, file)
    with _somewhere() as folder:
        _write(HERE / "ledgers" / f"{name}.expected.json", asked(thaw(file, folder)))


@contextmanager
def _somewhere() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
