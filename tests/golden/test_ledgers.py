"""Ledgers written by earlier versions still verify and give the same answers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from golden.frozen import thaw
from golden.ledgers import LEDGER, LEDGERS, asked, logged, written

KEPT = Path(__file__).parent / "ledgers"


@pytest.mark.parametrize("name", LEDGERS)
def test_a_recorded_ledger_is_verified_listed_and_continued(name: str, tmp_path: Path):
    seen = json.loads(json.dumps(asked(thaw(KEPT / f"{name}.json", tmp_path))))
    expected = json.loads((KEPT / f"{name}.expected.json").read_text("utf-8"))
    for part, value in expected.items():
        assert seen[part] == value, part
    assert seen.keys() == expected.keys()


def test_records_are_listed_as_they_were_written(tmp_path: Path):
    rookery = thaw(KEPT / "branches.json", tmp_path)
    by_id = {record["id"]: record for record in written(rookery)}
    assert {record["id"]: record for record in logged(rookery)} == by_id


HARM: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a changed record": lambda lines: [line.replace(b"side.py", b"hide.py") for line in lines],
    "a missing record": lambda lines: lines[:4] + lines[5:],
    "a missing end": lambda lines: lines[:-2],
}


@pytest.mark.parametrize("harm", HARM)
def test_a_tampered_recorded_ledger_fails_verification(harm: str, tmp_path: Path):
    rookery = thaw(KEPT / "branches.json", tmp_path)
    ledger = rookery.workspace / LEDGER
    before = ledger.read_bytes()
    ledger.write_bytes(b"".join(HARM[harm](before.splitlines(keepends=True))))
    assert ledger.read_bytes() != before
    done = rookery.run("trace", "verify", "--json")
    assert (done.returncode, json.loads(done.stdout)["whole"]) == (1, False)


def test_every_recorded_ledger_is_tested():
    assert {path.name.partition(".")[0] for path in KEPT.iterdir()} == LEDGERS.keys()
