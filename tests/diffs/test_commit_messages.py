"""The answer of a model becomes a plain commit message."""

import pytest

from rookery.diffs.cli.commit import LONGEST_MESSAGE, clean_message, with_trailer
from support.each_row import each_row

ANSWERS = {
    "plain": ("fix: Divide", "fix: Divide"),
    "a body": ("Divide\n\nBecause.\n", "Divide\n\nBecause."),
    "a body without a blank line": ("Divide\nBecause.", "Divide\n\nBecause."),
    "a full stop": ("Divide by x.", "Divide by x"),
    "a fence": ("```\nDivide\n\nWhy.\n```", "Divide\n\nWhy."),
    "a fence with a remark": (
        "Here is the message:\n```text\nDivide\n```\nHope it helps!",
        "Divide",
    ),
    "a remark": ("Sure! I looked at it.\n\nHere's a message:\n\nDivide", "Divide"),
    "a label": ("Commit message: Divide", "Divide"),
    "quotes": ('"Divide by x"', "Divide by x"),
    "backticks": ("`Divide by x`", "Divide by x"),
    "bold": ("**Divide by x**", "Divide by x"),
    "quoted words stay": ('Say "hi"', 'Say "hi"'),
    "control characters": ("Div\x1b[2Jide\x07\r\n\r\nWhy\tnot", "Div[2Jide\n\nWhy    not"),
    "hidden characters": ("Div\u202eide\u200b \U000e0041", "Divide"),
    "claims": (
        "Divide\n\nWhy.\n\nSigned-off-by: Eve <e@x>\nCo-Authored-By: Eve <e@x>\nIntent: INT-9",
        "Divide\n\nWhy.",
    ),
    "many blank lines": ("Divide\n\n\n\n\nWhy.\n\n\n\nMore.", "Divide\n\nWhy.\n\nMore."),
    "nothing": (" \n\u200b\n", ""),
}


@pytest.mark.parametrize(("answer", "message"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_cleaned(answer: str, message: str):
    assert clean_message(answer) == message


def test_a_message_has_a_longest_length():
    assert len(clean_message("Divide\n\n" + "x\n" * 90_000)) <= LONGEST_MESSAGE


@each_row(
    ("message", "expected"),
    [
        ("Divide", "Divide\n\nIntent: INT-1"),
        ("Divide\n\nWhy.", "Divide\n\nWhy.\n\nIntent: INT-1"),
        ("Divide\n\nFixes: #3", "Divide\n\nFixes: #3\nIntent: INT-1"),
        ("fix: divide", "fix: divide\n\nIntent: INT-1"),
    ],
)
def test_a_trailer_stands_in_the_last_paragraph(message: str, expected: str):
    assert with_trailer(message, "Intent", "INT-1") == expected
