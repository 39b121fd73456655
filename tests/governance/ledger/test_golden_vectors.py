"""The canonical form, its hashes and roots: fixed byte for byte, for others compute them too."""

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.ledger.verify_ledger import (
    MerkleTree,
    Verifier,
    canonical,
    leaf_hash,
    state_id,
)
from support.each_row import each_row
from support.sample_ledgers import GOLDEN_LINES

RECORDS = [json.loads(line) for line in GOLDEN_LINES]
HASHES = [record["metadata"]["orchestration"]["hash"] for record in RECORDS]


def merkle_root(hashes: Iterable[str]) -> str:
    tree = MerkleTree()
    for each in hashes:
        tree.add(bytes.fromhex(each.removeprefix("sha256:")))
    return tree.root


@each_row("number", range(3))
def test_a_golden_record_is_canonical_and_has_its_hash(number: int):
    assert canonical(RECORDS[number]) + b"\n" == GOLDEN_LINES[number]
    assert leaf_hash(RECORDS[number]) == HASHES[number]


def test_the_root_and_the_state_of_the_golden_records():
    root = "55d39e92a9eb4332a55490525acbd8d6e7a04a2b2bbfb26f7ed5044b49f1385a"
    state = "sha256:2b036e6a58ce130889775fd637fe2da9b7d19201399c9d8c1422fa9d32451f8b"
    assert merkle_root(HASHES) == root
    assert state_id([("01JMZ3V9K6T2Q8R4W0XYABCDEF", 2, HASHES[2])]) == state
    verifier = Verifier(expected=state)
    verifier.read("ledger", GOLDEN_LINES)
    report = verifier.report()
    assert (report.state, report.whole, report.findings) == (state, True, ())


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        2**53,
        -(2**53),
        "\ud800",
        {"é": 1},
        {1: 1},
        [[{"a": 0.5}]],
        b"bytes",
        {"a": {"b": "\udfff"}},
    ],
    ids=repr,
)
def test_values_without_a_canonical_form_are_refused(value: object):
    with pytest.raises(ValueError, match=r".+"):
        canonical(value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [True, None, -0]}, '{"a":[true,null,0],"b":1}'),
        ("é\u2028\x7f", '"é\u2028\x7f"'),
        ('\x00\x1f\b\t\n\f\r"\\/', r'"\u0000\u001f\b\t\n\f\r\"\\/"'),
        ("e\u0301", '"e\u0301"'),
        (2**53 - 1, "9007199254740991"),
    ],
    ids=repr,
)
def test_the_form_of_a_value(value: object, written: str):
    assert canonical(value) == written.encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner, max_size=4)
    ),
    max_leaves=12,
)


def surrogate_free(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(JSON.filter(surrogate_free))
def test_a_canonical_form_says_the_same_and_has_only_one_form(value: Any):
    assert json.loads(canonical(value)) == value
    assert canonical(json.loads(canonical(value))) == canonical(value)


def root_by_definition(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, implemented literally."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"").digest()
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    left, right = root_by_definition(leaves[:half]), root_by_definition(leaves[half:])
    return sha256(b"\1" + left + right).digest()


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=70))
def test_a_root_is_the_one_of_the_definition(leaves: list[bytes]):
    hashes = [f"sha256:{leaf.hex()}" for leaf in leaves]
    assert merkle_root(hashes) == root_by_definition(leaves).hex()
