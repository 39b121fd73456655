"""Section 8.1: every rule has a test that names it, and every class of incident one that names
the rule it proves. What has none is listed here with the reason.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

RULES = {
    "GATE": 12,
    "CMD": 14,
    "PATH": 10,
    "PROT": 3,
    "TRUST": 9,
    "SBX": 10,
    "GIT": 9,
}
"""How many rules each group of section 4 has; they are numbered from 1."""

WITHOUT_A_TEST = {
    "CMD-12": "Windows is not supported, so no shell of Windows is ever asked to run anything",
    "TRUST-9": "there are no links, schemes or imports by which a stranger could add anything",
}

CLASSES = range(1, 24)
_RULE = re.compile(r"([A-Z]{2,5})[-_]?([0-9]{1,2})(?![0-9])")


def names_of_tests() -> Iterator[str]:
    """The names of tests, and the texts by which their rows are called."""
    for file in sorted(TESTS.rglob("test_*.py")):
        if file == Path(__file__):
            continue
        text = file.read_text(encoding="utf-8")
        yield from re.findall(r"(?:def|class) ([Tt]est\w+)", text)
        yield from re.findall(r"\"([^\"\n]*)\"", text)
    for file in sorted(TESTS.rglob("*")):
        if file.suffix in (".toml", ".tsv", ".txt", ".yaml", ".json") and file.is_file():
            yield from file.read_text(encoding="utf-8", errors="replace").splitlines()


def rules_named() -> set[str]:
    named = set()
    for name in names_of_tests():
        for group, number in _RULE.findall(name.upper()):
            if group in RULES:
                named.add(f"{group}-{int(number)}")
    return named


def test_8_1_every_rule_has_a_test_or_a_reason():
    rules = {f"{group}-{n}" for group, count in RULES.items() for n in range(1, count + 1)}
    missing = rules - rules_named()
    print("Rules without a test:", ", ".join(sorted(missing)) or "none")
    assert missing == set(WITHOUT_A_TEST)


def test_8_1_no_test_names_a_rule_that_is_not_there():
    unknown = {
        rule
        for rule in rules_named()
        if not 1 <= int(rule.partition("-")[2]) <= RULES[rule.partition("-")[0]]
    }
    assert unknown == set()


@pytest.mark.parametrize("number", CLASSES)
def test_8_1_every_class_of_incident_has_a_test_that_names_its_rule(number: int):
    incidents = Path(__file__).parent
    texts = [file.read_text(encoding="utf-8") for file in incidents.glob("test_k*.py")]
    name = rf"K{number}(?![0-9])[\w -]*?[A-Z]{{2,5}}[-_][0-9]"
    assert any(re.search(name, text) for text in texts)
