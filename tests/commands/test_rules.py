"""The user's lists, in the order of the gate: deny, dangerous, understood, allowed."""

from collections.abc import Iterator

import pytest

from rookery.commands.rules import CommandRules, faulty_entries
from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action
from support.actions import never
from support.command_project import Bench, bench, decision
from support.each_row import each_row

ALLOW, ASK, DENY, NONE = Decision.ALLOW, Decision.ASK, Decision.DENY, Decision.NONE


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("project"))
    for name in ("npm", "pytest", "make", "timeout", "env", "sh", "python", "rm"):
        (made.programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (made.programs / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PATH", str(made.programs))
        yield made


ROWS = [
    pytest.param("npm test", ["npm test"], [], ALLOW, id="exactly this"),
    pytest.param("npm  test", ["npm test"], [], NONE, id="not plain"),
    pytest.param("npm test --watch", ["npm test"], [], ALLOW, id="more arguments"),
    pytest.param("pytest -q tests", ["pytest"], [], ALLOW, id="a program and arguments"),
    pytest.param("pytest -k 'a or b' -x", ["pytest -k"], [], ALLOW, id="quoted argument"),
    pytest.param("pytest -q tests | head", ["pytest", "head"], [], ALLOW, id="a pipe"),
    pytest.param("pytest; rm -rf x", ["pytest"], [], NONE, id="another command behind"),
    pytest.param("pytest ; rm -rf x", ["pytest"], [], NONE, id="the same, spaced"),
    pytest.param("pytest & rm x", ["pytest"], [], NONE, id="in the background"),
    pytest.param("pytest⏎rm x", ["pytest"], [], NONE, id="on the next line"),
    pytest.param("pytest | tee x", ["pytest"], [], NONE, id="behind a pipe"),
    pytest.param("pytest $(rm x)", ["pytest"], [], NONE, id="substitution in an argument"),
    pytest.param("pytest `rm x`", ["pytest"], [], NONE, id="backquotes"),
    pytest.param("pytest <(rm x)", ["pytest"], [], NONE, id="process substitution"),
    pytest.param("pytest > x", ["pytest"], [], NONE, id="writes a file"),
    pytest.param("pytest > @OUT@/x", ["pytest"], [], ASK, id="writes elsewhere"),
    pytest.param("pytest $X", ["pytest"], [], NONE, id="a variable"),
    pytest.param("A=1 pytest", ["pytest"], [], NONE, id="a setting before it"),
    pytest.param("./pytest -q", ["pytest"], [], NONE, id="a program of the project"),
    pytest.param("python -m pytest", ["pytest"], [], NONE, id="not the first word"),
    pytest.param("pytest-3 -q", ["pytest"], [], NONE, id="whole words"),
    pytest.param("make lint deploy", ["make lint"], [], ALLOW, id="what begins so"),
    pytest.param("make", ["make lint"], [], NONE, id="fewer words"),
    pytest.param("timeout 9 pytest -q", ["timeout 9 pytest"], [], ALLOW, id="in a wrapper"),
    pytest.param("timeout 9 pytest -q", ["timeout", "pytest"], [], ALLOW, id="both listed"),
    pytest.param("timeout 9 rm x", ["timeout"], [], NONE, id="a wrapper covers no other"),
    pytest.param("env rm x", ["env"], [], NONE, id="env covers no other"),
    pytest.param("sh -c 'rm x'", ["sh"], [], NONE, id="nor does a shell"),
    pytest.param("sort -o notes.txt README.md", ["sort"], [], NONE, id="a reader that writes"),
    pytest.param("npm testing", ["npm test"], [], NONE, id="word by word"),
    pytest.param("npm test && ls", ["npm test"], [], NONE, id="every command"),
    pytest.param("npm test && ls", ["npm test", "ls"], [], ALLOW, id="both listed"),
    pytest.param("npm test && rm x", ["npm test"], [], NONE, id="one is not"),
    pytest.param("npm test > x", ["npm test"], [], NONE, id="redirection"),
    pytest.param("npm test $(id)", ["npm test"], [], NONE, id="substitution"),
    pytest.param("A=1 npm test", ["npm test"], [], NONE, id="assignment"),
    pytest.param("./npm test", ["./npm test"], [], NONE, id="path in the entry"),
    pytest.param("unknown-tool", ["unknown-tool"], [], NONE, id="not to be found"),
    pytest.param("cat @OUT@/marker.txt", ["cat"], [], ALLOW, id="known program and operands"),
    pytest.param("cat --frobnicate x", ["cat"], [], NONE, id="unknown option"),
    pytest.param("git logout", ["git log"], [], NONE, id="git logout"),
    pytest.param("pytest -q", ["*"], [], ALLOW, id="everything"),
    pytest.param("echo $(id)", ["*"], [], ALLOW, id="everything, not plain"),
    pytest.param("rm -rf .", ["*"], [], ASK, id="everything but dangerous"),
    pytest.param("rm -rf .", ["rm -rf ."], [], ASK, id="dangerous before allow"),
    pytest.param("ls", [], ["ls"], DENY, id="deny before understood"),
    pytest.param("npm test", ["npm test"], ["npm"], DENY, id="deny before allow"),
    pytest.param("rm -rf .", [], ["rm"], DENY, id="deny before dangerous"),
    pytest.param("ls -la", [], ["*"], DENY, id="deny everything"),
    pytest.param("lsof", [], ["ls"], NONE, id="deny word by word"),
    pytest.param("npm run x", [], ["npm test"], NONE, id="deny another"),
    pytest.param("npm RUN x", [], ["npm run"], DENY, id="deny in any case"),
    pytest.param("cat README.md", [], ["rm"], ALLOW, id="nothing denied"),
]


@pytest.mark.anyio
@each_row(("line", "allow", "deny", "expected"), ROWS)
async def test_allow_and_deny_lists_decide(
    here: Bench, line: str, allow: list[str], deny: list[str], expected: Decision
):
    command = here.spelled(line)
    judged = here.judge(command, "")
    assert await decision(judged, command, allow=tuple(allow), deny=tuple(deny)) is expected


CALL = ToolCall(id="c1", name="execute_command", arguments={})


@pytest.mark.anyio
async def test_an_untrusted_project_allows_nothing_automatically(here: Bench):
    rules = CommandRules(allow=[], deny=[], trusted=False)
    action = Action(title="x", perform=never, command="ls", judgement=here.judge("ls", ""))
    assert (await rules.before(CALL, action)).decision is NONE


@pytest.mark.anyio
async def test_without_a_sandbox_every_command_asks_unless_the_user_allowed_it(here: Bench):
    rules = CommandRules(allow=["wc"], deny=[], trusted=True, confines=lambda: False)
    for line, expected in [("ls", NONE), ("cat README.md", NONE), ("wc README.md", ALLOW)]:
        action = Action(title="x", perform=never, command=line, judgement=here.judge(line, ""))
        assert (await rules.before(CALL, action)).decision is expected


@pytest.mark.anyio
async def test_command_rules_ignore_actions_without_a_command():
    rules = CommandRules(allow=["*"], deny=["*"], trusted=True)
    assert (await rules.before(CALL, Action(title="x", perform=never))).decision is NONE


@pytest.mark.anyio
async def test_a_command_without_a_judgement_is_not_allowed():
    rules = CommandRules(allow=["ls"], deny=[], trusted=True)
    action = Action(title="x", perform=never, command="ls")
    assert (await rules.before(CALL, action)).decision is NONE


@pytest.mark.anyio
async def test_the_reasons_of_a_dangerous_command_are_given(here: Bench):
    rules = CommandRules(allow=["*"], deny=[], trusted=True)
    line = "git reset --hard && rm -rf .git"
    judged = here.judge(line, "")
    ruling = await rules.before(
        CALL, Action(title="x", perform=never, command=line, judgement=judged)
    )
    assert ruling.reasons == judged.dangers
    assert len(ruling.reasons) == 2


@pytest.mark.anyio
async def test_a_command_nested_too_deep_is_denied_if_a_deny_list_exists(here: Bench):
    line = "env " * 12 + "ls"
    judged = here.judge(line, "")
    assert judged.too_deep
    assert await decision(judged, line, deny=("curl",)) is DENY
    assert await decision(judged, line) is NONE


def test_entries_without_effect_are_reported():
    entries = ["npm test", "*", "git log | head", "echo $HOME", "./run.sh", "cd x", ""]
    reported = faulty_entries(entries)
    assert [sentence.split("'")[1] for sentence in reported] == entries[2:]
    assert all(sentence.endswith(".") for sentence in reported)
