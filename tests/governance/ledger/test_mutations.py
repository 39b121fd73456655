"""Nothing can be done to a ledger without being found, given the head that is known elsewhere.

`make test` tries 500 mutations; ROOKERY_TORTURE=1 tries 10,000 and another 10,000 with seeds
that are new each time.
"""

import json
import os
import random
import secrets
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rookery.governance.ledger.verify_ledger import (
    KnownHead,
    Report,
    Verifier,
    canonical,
    decode_objects,
    leaf_hash,
)
from support.each_row import each_row
from support.sample_ledgers import LedgerBench, some_tasks

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
GROUPS = 20
EACH = 500 if TORTURE else 25

Lines = list[bytes]


class Ground:
    """A ledger, another one, and the known state of the first."""

    def __init__(self, folder: Path) -> None:
        bench, other = LedgerBench(folder / "own"), LedgerBench(folder / "other")
        some_tasks(bench, records=32)
        some_tasks(other, records=32, seed=2)
        known = bench.heads.read()
        assert known is not None
        self.lines, self.other = bench.lines, other.lines
        self.known: KnownHead = known

    def report(self, data: bytes, expected: str = "", *, tips_only: bool = False) -> Report:
        known = KnownHead(self.known.tips, self.known.records) if tips_only else self.known
        verifier = Verifier(known=known, expected=expected)
        verifier.read(
            "ledger", data.splitlines(keepends=True) if b"\r" not in data else split(data)
        )
        return verifier.report()


def split(data: bytes) -> Lines:
    """At line feeds only, as files are read."""
    pieces = data.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("ledgers"))


def edit_a_byte(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    data = bytearray(b"".join(lines))
    data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    return bytes(data)


def insert_bytes(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    data = b"".join(lines)
    at = chance.randrange(len(data) + 1)
    some = chance.choice([b" ", b"\n", b"\r", b"\0", b"{}", b"0", b"\xff", chance.randbytes(5)])
    return data[:at] + some + data[at:]


def cut_bytes(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    data = b"".join(lines)
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.choice([1, 2, 10, 1000, 20_000]) :]


def edit_a_field(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    return changed_record(chance, lines, rehash=False)


def edit_a_field_and_its_hash(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    return changed_record(chance, lines, rehash=True)


def edit_and_rehash_the_whole_stream(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    records = list(map(json.loads, lines))
    at = chance.randrange(len(records))
    alter(chance, records[at])
    own = part(records[at])
    stream, prev = own["stream"], None
    for record in records:
        if part(record)["stream"] == stream:
            part(record)["prev"] = prev
            prev = part(record)["hash"] = leaf_hash(record)
    return b"".join(map(line_of, records))


def drop_a_line(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    at = chance.randrange(len(lines))
    return b"".join(lines[:at] + lines[at + 1 :])


def drop_some_lines(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    at = chance.randrange(len(lines))
    return b"".join(lines[:at] + lines[at + chance.randrange(1, 12) :])


def drop_a_stream(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    stream = part(json.loads(chance.choice(lines)))["stream"]
    return b"".join(line for line in lines if part(json.loads(line))["stream"] != stream)


def drop_the_end_of_a_stream(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    own = part(json.loads(chance.choice(lines)))
    kept = (
        line
        for line in lines
        if (held := part(json.loads(line)))["stream"] != own["stream"] or held["seq"] < own["seq"]
    )
    return b"".join(kept)


def swap_lines(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    one, other = chance.sample(range(len(lines)), 2)
    swapped = list(lines)
    swapped[one], swapped[other] = lines[other], lines[one]
    return b"".join(swapped)


def shuffle_lines(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    return b"".join(chance.sample(lines, len(lines)))


def swap_contents(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    """Two records keep their positions and swap their content."""
    records = list(map(json.loads, lines))
    one, other = chance.sample(records, 2)
    for name in chance.sample(["id", "timestamp", "files", "metadata"], 2):
        one[name], other[name] = other[name], one[name]
    return b"".join(map(line_of, records))


def swap_places(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    """Two records exchange their places in their chains, and are hashed anew."""
    records = list(map(json.loads, lines))
    one, other = (part(record) for record in chance.sample(records, 2))
    for name in ("stream", "seq", "prev"):
        one[name], other[name] = other[name], one[name]
    for record in records:
        part(record)["hash"] = leaf_hash(record)
    return b"".join(map(line_of, records))


def point_prev_elsewhere(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    records = list(map(json.loads, lines))
    one, other = chance.sample(records, 2)
    part(one)["prev"] = chance.choice([part(other)["hash"], None, "sha256:" + "0" * 64])
    if chance.random() < 0.5:
        part(one)["hash"] = leaf_hash(one)
    return b"".join(map(line_of, records))


def repeat_a_line(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    at = chance.randrange(len(lines))
    return b"".join([*lines[:at], chance.choice(lines), *lines[at:]])


def repeat_with_a_change(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    record = json.loads(chance.choice(lines))
    alter(chance, record)
    if chance.random() < 0.5:
        part(record)["hash"] = leaf_hash(record)
    at = chance.randrange(len(lines) + 1)
    return b"".join([*lines[:at], line_of(record), *lines[at:]])


def repeat_a_key(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    """Readers do not agree on which of two equal keys counts."""
    at = chance.randrange(len(lines))
    key = chance.choice([b'"kind":"blocked",', b'"id":"x",', b'"seq":0,', b'"hash":"sha256:0",'])
    places = [i + 1 for i, byte in enumerate(lines[at]) if byte in b"{,"]
    where = chance.choice(places)
    line = lines[at][:where] + key + lines[at][where:]
    return b"".join([*lines[:at], line, *lines[at + 1 :]])


def truncate_anywhere(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    data = b"".join(lines)
    return data[: chance.randrange(len(data))]


def truncate_after_a_line(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    return b"".join(lines[: chance.randrange(len(lines))])


def cut_the_beginning(chance: random.Random, lines: Lines, _: Lines) -> bytes:
    data = b"".join(lines)
    return data[chance.randrange(1, len(data)) :]


def splice(chance: random.Random, lines: Lines, other: Lines) -> bytes:
    at = chance.randrange(len(lines) + 1)
    start = chance.randrange(len(other))
    strange = other[start : start + chance.randrange(1, 9)]
    kept = lines[at + chance.choice([0, 0, len(strange)]) :]
    return b"".join([*lines[:at], *strange, *kept])


def splice_into_a_line(chance: random.Random, lines: Lines, other: Lines) -> bytes:
    one, two = b"".join(lines), b"".join(other)
    at, from_there = chance.randrange(len(one)), chance.randrange(len(two))
    size = chance.randrange(1, 3000)
    return one[:at] + two[from_there : from_there + size] + one[at + size :]


MUTATIONS: list[Callable[[random.Random, Lines, Lines], bytes]] = [
    *(edit_a_byte, insert_bytes, cut_bytes, edit_a_field, edit_a_field_and_its_hash),
    *(edit_and_rehash_the_whole_stream, drop_a_line, drop_some_lines, drop_a_stream),
    *(drop_the_end_of_a_stream, swap_lines, shuffle_lines, swap_contents, swap_places),
    *(point_prev_elsewhere, repeat_a_line, repeat_with_a_change, repeat_a_key),
    *(truncate_anywhere, truncate_after_a_line, cut_the_beginning, splice, splice_into_a_line),
]


def part(record: dict[str, Any]) -> dict[str, Any]:
    own = record["metadata"]["orchestration"]
    assert isinstance(own, dict)
    return own


def line_of(record: dict[str, Any]) -> bytes:
    return canonical(record) + b"\n"


def changed_record(chance: random.Random, lines: Lines, *, rehash: bool) -> bytes:
    at = chance.randrange(len(lines))
    record = json.loads(lines[at])
    alter(chance, record)
    if rehash:
        part(record)["hash"] = leaf_hash(record)
    return b"".join([*lines[:at], line_of(record), *lines[at + 1 :]])


def alter(chance: random.Random, record: dict[str, Any]) -> None:
    """Change, add or remove one thing, anywhere in the record but in what places it."""
    before = deepcopy(record)
    while record == before:
        holder: Any = record
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            keys = [key for key in keys if key not in {"metadata", "orchestration", "hash"}]
            if holder is record and chance.random() < 0.5:
                holder = part(record)
                continue
            if not keys:
                break
            key = chance.choice(keys)
            if not isinstance(holder[key], dict | list) or not holder[key]:
                change_value(chance, holder, key)
                break
            holder = holder[key]


def change_value(chance: random.Random, holder: Any, key: Any) -> None:
    held = holder[key]
    if key in {"stream", "seq", "prev"}:
        return
    if isinstance(holder, dict) and chance.random() < 0.2:
        del holder[key]
    elif isinstance(held, bool):
        holder[key] = not held
    elif isinstance(held, int):
        holder[key] = held + chance.choice([-1, 1, 1000])
    elif isinstance(held, str):
        holder[key] = chance.choice([held + "x", held[:-1], held.swapcase(), ""])
    else:
        holder[key] = "something"


def undetected(ground: Ground, seed: str) -> str:
    """A description of an undetected mutation, or an empty text."""
    chance = random.Random(seed)
    mutate = chance.choice(MUTATIONS)
    data, original = mutate(chance, ground.lines, ground.other), b"".join(ground.lines)
    if data == original:
        return ""
    report = ground.report(data)
    if report.failures:
        return ""
    if ground.report(data, tips_only=True).whole and lost_records(ground.lines, data):
        return f"{mutate.__name__} with seed {seed} loses records"
    if not report.whole:
        return ""
    if any(finding.code == "not-as-left" for finding in report.findings):
        return ""  # every record is there as it was, in another place: a warning
    # whole foreign streams are what a merge brings: reported, but not as lost state
    reported = {finding.code for finding in report.findings}
    state = Verifier()
    state.read("ledger", ground.lines)
    strange = ground.report(data, expected=state.report().state)
    if mutate is splice and "merged" in reported and not strange.whole:
        return ""
    return f"{mutate.__name__} with seed {seed}: {sorted(reported)}"


def lost_records(lines: Lines, data: bytes) -> bool:
    """Whether a record of ours is not in the data as it was. Its form does not count."""
    there = {
        canonical(record)
        for line in split(data)
        if line.strip()
        for record in decode_objects(line.decode())
    }
    return not there >= {line.rstrip(b"\n") for line in lines}


def test_the_untouched_ledger_is_whole(ground: Ground):
    report = ground.report(b"".join(ground.lines))
    assert report.whole
    assert report.findings == ()
    assert report.streams >= 4


@each_row("group", range(GROUPS))
def test_every_mutation_of_a_ledger_is_found(ground: Ground, group: int):
    missed = [undetected(ground, f"{group}.{number}") for number in range(EACH)]
    assert [each for each in missed if each] == []


if TORTURE:

    @pytest.mark.parametrize("group", range(GROUPS))
    def test_every_mutation_of_a_ledger_is_found_with_new_seeds(ground: Ground, group: int):
        missed = [undetected(ground, secrets.token_hex(8)) for _ in range(500)]
        assert [each for each in missed if each] == []
