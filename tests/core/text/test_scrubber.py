"""Shared text contains no known secret, home folder or user name."""

import random

from rookery.core.text.scrubber import _GAPS, Scrubber, _condensed
from support.chance import new_seed
from support.each_row import each_row

KEY = 'p@ss"w\\ord&<é1'
CASES = [
    (f"key {KEY}.", "key [redacted:key]."),
    ('p@ss\n  "w\\ord\n&<é1', "[redacted:key]"),
    ('+p@ss"w\n+\\ord&<é1', "+[redacted:key]"),
    ('p@ss\x1b[1m"w\\ord&<é1', "[redacted:key]"),
    ('{"a": "p@ss\\"w\\\\ord&<\\u00e91"}', '{"a": "[redacted:key]"}'),
    ("p@ss&quot;w\\ord&amp;&lt;é1", "[redacted:key]"),
    ("?q=p%40ss%22w%5Cord%26%3C%C3%A91&x", "?q=[redacted:key]&x"),
    ("cEBzcyJ3XG9yZCY8w6kx", "[redacted:key]"),
    ("704073732277", "704073732277"),
    ("aws-value-12", "[redacted:environment]"),
    ("cd /home/ada/x && ls /home/adam", "cd ~/x && ls /home/adam"),
    ("by ada, not adamant; ada_x", "by user, not adamant; user_x"),
    ("token: ghp_" + "x1Y2" * 9, "token: [redacted:github-token]"),
]


@each_row(("text", "expected"), CASES)
def test_secrets_and_names_are_replaced(text: str, expected: str):
    environment = {"MY_SECRET": "aws-value-12", "EDITOR": "vim-improved"}
    scrub = Scrubber(keys=[KEY], environment=environment, homes=["/home/ada"], user="ada")
    assert scrub.text(text) == expected


def test_a_text_without_control_characters_is_condensed_as_one_with_them():
    chance = random.Random(new_seed())
    pieces = [
        "ab",
        "n",
        "r",
        "u000a",
        "u001b",
        "\\",
        "\n",
        "\r",
        "\t",
        " ",
        "-",
        "+",
        "|",
        ">",
        "é",
    ]
    for _ in range(3_000):
        text = "".join(chance.choices(pieces, k=chance.randint(1, 14)))
        for gap, mark in _GAPS:
            assert _condensed(text, gap, mark) == gap.sub("", text)


@each_row("user", ["root", "al", ""])
def test_a_common_or_short_user_name_stays(user: str):
    text = f"the {user} folder"
    assert Scrubber(user=user).text(text) == text


def test_images_and_signatures_are_dropped_and_links_between_events_are_kept():
    scrub = Scrubber(user="ada")
    image = {"media_type": "image/png", "data": "AAAA"}
    value = {"images": [image], "signature": "xyz", "call_id": "toolu_01aB3dE5gH7jK9mN1pQ3sT5v"}
    assert scrub.value(value) == {
        "images": [{"media_type": "image/png", "data": ""}],
        "signature": "",
        "call_id": "toolu_01aB3dE5gH7jK9mN1pQ3sT5v",
    }
    assert scrub.found["image"] == 1
