from pathlib import Path

import pytest

from rookery.core.instructions import Skill, skills_for
from rookery.errors import ToolError
from rookery.prompting.skills_and_commands import MOST_SKILLS, FoundSkills, SkillFiles
from support.config_folders import ConfigBench


@pytest.fixture
def bench(tmp_path: Path) -> ConfigBench:
    return ConfigBench(tmp_path)


def files(bench: ConfigBench, *, trusted: bool = True) -> SkillFiles:
    return SkillFiles(bench.places(trusted=trusted))


def put(bench: ConfigBench, folder: str, name: str, about: str = "", body: str = "Do.") -> Path:
    head = about or f"name: {name}\ndescription: About {folder}"
    return bench.put(f"{folder}/{name}/SKILL.md", f"---\n{head}\n---\n\n{body}\n")


def test_a_skill_is_listed_and_its_text_is_read_on_demand(bench: ConfigBench):
    put(bench, ".rookery/skills", "pdf-forms", body="# Forms\n---\nDo it.")
    found = files(bench)
    (skill,) = found.read().skills
    assert skill == Skill(
        name="pdf-forms",
        description="About .rookery/skills",
        path=".rookery/skills/pdf-forms/SKILL.md",
        origin="project",
    )
    assert found.body(skill) == "# Forms\n---\nDo it."


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ("~/.agents/skills", "~/.roo/skills"),
        ("~/.roo/skills", "config/skills"),
        (".agents/skills", ".roo/skills"),
        (".roo/skills", ".rookery/skills"),
        (".rookery/skills", "~/.agents/skills"),
        (".rookery/skills-code", "~/.agents/skills"),
        ("config/skills", "~/.agents/skills-code"),
    ],
)
def test_the_stronger_of_two_skills_of_the_same_name_is_used(
    bench: ConfigBench, weaker: str, stronger: str
):
    put(bench, stronger, "a")
    put(bench, weaker, "a")
    (skill,) = skills_for(files(bench).read().skills, "code")
    assert skill.description == f"About {stronger}"


@pytest.mark.parametrize(
    ("own", "theirs", "reported"),
    [
        ("config/skills", ".roo/skills", True),
        ("config/skills", ".roo/skills-code", True),
        ("config/skills-code", ".roo/skills-code", True),
        ("config/skills-code", ".roo/skills", False),
    ],
)
def test_an_unused_project_skill_is_reported(
    bench: ConfigBench, own: str, theirs: str, reported: bool
):
    put(bench, own, "a")
    put(bench, theirs, "a")
    expected = (
        ("The project's skill a is not used: you have a skill with that name.",) if reported else ()
    )
    assert files(bench).read().problems == expected


@pytest.mark.parametrize(
    ("about", "modes"),
    [
        ("", ()),
        ("modeSlugs: [code, ask]", ("code", "ask")),
        ("mode: debug", ("debug",)),
    ],
)
def test_a_skill_declares_its_modes(bench: ConfigBench, about: str, modes: tuple[str, ...]):
    put(bench, ".roo/skills", "a", f"name: a\ndescription: d\n{about}")
    assert [skill.modes for skill in files(bench).read().skills] == [modes]


@pytest.mark.parametrize(
    ("name", "about", "reason"),
    [
        ("a", "name: b\ndescription: d", "the name of its folder"),
        ("A_b", "name: A_b\ndescription: d", "lower-case letters"),
        ("a--b", "name: a--b\ndescription: d", "lower-case letters"),
        ("a" * 65, f"name: {'a' * 65}\ndescription: d", "lower-case letters"),
        ("a", "name: a", "description"),
        ("a", f"name: a\ndescription: {'x' * 1025}", "description"),
        ("a", "name: a\ndescription: d\nmodeSlugs: 3", "modeSlugs"),
        ("a", "name: [", "YAML"),
    ],
)
def test_a_faulty_skill_is_skipped_and_reported(
    bench: ConfigBench, name: str, about: str, reason: str
):
    put(bench, ".roo/skills", name, about)
    found = files(bench).read()
    assert found.skills == ()
    assert reason in found.problems[0]
    assert f".roo/skills/{name}/SKILL.md" in found.problems[0]


def test_project_skills_are_used_only_in_a_trusted_project(bench: ConfigBench):
    put(bench, ".roo/skills", "theirs")
    put(bench, "~/.roo/skills", "mine")
    assert [skill.name for skill in files(bench, trusted=False).read().skills] == ["mine"]


def test_a_deleted_skill_is_reported(bench: ConfigBench):
    file = put(bench, ".roo/skills", "a")
    found = files(bench)
    (skill,) = found.read().skills
    file.unlink()
    with pytest.raises(ToolError, match="The skill a cannot be read"):
        found.body(skill)
    assert found.read() == FoundSkills()


def test_links_to_one_folder_of_skills_stop_at_the_limit(bench: ConfigBench):
    for number in range(40):
        put(bench, ".rookery/skills", f"s{number}")
        bench.link(f".rookery/skills-mode{number}", "skills")
    found = files(bench).read()
    assert len(found.skills) == MOST_SKILLS
    assert found.problems == (
        f".rookery has more than {MOST_SKILLS} skills; the rest is not read.",
    )
