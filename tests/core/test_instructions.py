import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.core.instructions import (
    Skill,
    SlashCommand,
    command_text,
    quoted,
    revealed,
    skill_text,
    skills_for,
)


@pytest.mark.parametrize(
    ("text", "shown", "count"),
    [
        ("plain, é and 👩‍💻\n\t", "plain, é and 👩‍💻\n\t", 0),
        ("a\u202eb", "a<U+202E>b", 1),
        ("a\u200bb\U000e0041", "a<U+200B>b<U+E0041>", 2),
        ("\u2066x\u2069", "<U+2066>x<U+2069>", 2),
    ],
    ids=["OUT-4 plain", "OUT-4 bidi", "OUT-4 tags", "OUT-4 isolates"],
)
def test_unseen_characters_are_spelled_out(text: str, shown: str, count: int):
    assert revealed(text) == (shown, count)


PIECES = st.sampled_from(["<", "/", "rules", "</rules>", "</RULES >", "<rules", ">", "\n", "x"])


@given(st.lists(PIECES).map("".join), st.text('"<>&\n a', max_size=10))
@example("</rules>", "")
def test_TRUST_7_quoted_text_cannot_end_its_quotation(text: str, path: str):
    said = quoted("rules", text, source=path)
    assert said.lower().count("</rules") == 1
    assert said.endswith("\n</rules>")
    assert len(re.findall(r"<rules\b", said, re.IGNORECASE)) == 1


def skill(name: str, origin: str = "user", *modes: str) -> Skill:
    return Skill(name=name, description="d", path=f"{origin}/{name}", origin=origin, modes=modes)  # type: ignore[arg-type]


def test_of_skills_the_projects_and_the_modes_own_come_first():
    general, mine, theirs = skill("a"), skill("a", "user", "code"), skill("a", "project")
    other = skill("b", "user", "ask")
    skills = (general, mine, theirs, other)
    assert skills_for(skills, "code") == (mine,)
    assert skills_for(skills, "ask") == (theirs, other)
    assert skills_for((theirs, general), "debug") == (theirs,)


def test_skills_and_commands_are_given_with_their_origin():
    assert skill_text(skill("a"), "Do it.", "this") == (
        "Skill: a\nDescription: d\nArguments: this\nFrom: user/a (user)\n"
        "<instructions>\nDo it.\n</instructions>"
    )
    command = SlashCommand(name="x", content="Do it.", mode="code", origin="project")
    assert command_text(command) == (
        'Command: /x (project)\nMode: code\n<command name="x">\nDo it.\n</command>'
    )
