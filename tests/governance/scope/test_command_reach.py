"""The reach of a command line, derived from its judgement."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.engine.ports.actions import Deed, Judgement, Target
from rookery.governance.scope.scope_verdict import Op
from rookery.governance.scope.touched_paths import ReachKind, ReachTarget, all_commands_known, reach
from support.command_project import Bench, bench
from support.each_row import each_row


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench(tmp_path_factory.mktemp("reach"))


READ_ONLY = ["ls", "cat notes.txt | grep a | sort", "git status && git diff", "find . -name '*.py'"]


@each_row("line", READ_ONLY)
def test_a_line_of_readers_reads_only(here: Bench, line: str) -> None:
    reported = reach(here.judge(line, ""))
    assert (reported.kind, reported.targets, reported.why) == (ReachKind.READ_ONLY, (), "")


BOUNDED = {
    "cat and rm": ("cat notes.txt && rm -rf build", [("build", Op.DELETE)]),
    "redirection": ("echo x > src/api.py", [("src/api.py", Op.MODIFY)]),
    "tee": ("cat notes.txt | tee src/b", [("src/b", Op.MODIFY)]),
    "cp": ("cp notes.txt src", [("src/notes.txt", Op.MODIFY)]),
    "mv": ("mv notes.txt docs/n.txt", [("notes.txt", Op.RENAME), ("docs/n.txt", Op.MODIFY)]),
    "mv and rm": (
        "mv notes.txt docs/n.txt && rm README.md",
        [("notes.txt", Op.DELETE), ("docs/n.txt", Op.MODIFY), ("README.md", Op.DELETE)],
    ),
    "mkdir": ("mkdir -p src/new", [("src/new", Op.MODIFY)]),
    "touch": ("touch src/new.py", [("src/new.py", Op.MODIFY)]),
    "pattern": ("rm build/*.o", [("build/a.o", Op.DELETE), ("build/b.o", Op.DELETE)]),
    "in a subshell": ("(cd src && rm app.py)", [("src/app.py", Op.DELETE)]),
    "protected": ("echo x > .git/hooks/pre-commit", [(".git/hooks/pre-commit", Op.MODIFY)]),
    "through a link": ("echo x > link_in", [("src/app.py", Op.MODIFY)]),
}


@pytest.mark.parametrize("case", BOUNDED.values(), ids=BOUNDED.keys())
def test_a_line_with_known_targets_is_bounded(
    here: Bench, case: tuple[str, list[tuple[str, Op]]]
) -> None:
    line, expected = case
    reported = reach(here.judge(line, ""))
    assert (reported.kind, reported.why) == (ReachKind.BOUNDED, "")
    # what a pattern names comes in the order of the file system
    assert sorted((each.path, each.op) for each in reported.targets) == sorted(expected)


UNBOUNDED = [
    "make build",
    "pytest -q",
    "python -c 'print(1)'",
    "npm run x",
    "$CMD",
    "eval 'rm a'",
    "./gen.sh",
    "sudo rm a",
    "vim",
    "vim notes.txt",
    "ed notes.txt",
    "ln -s /etc src/link",
    "cp -r build src",
    "cp -a build/. src",
    "curl https://example.org",
    "wget https://example.org/x",
    "git commit -m x",
    "rm $X",
    "echo x > /dev/sda",
    "touch notes.txt > /dev/sda",
    "sed -i s/a/b/ notes.txt",
    "X=1 touch a",
    "; ".join(["ls"] * 501),
    # what the table 22-65 says is not read-only
    "rg --pre sh x",
    "find . -delete",
]


@pytest.mark.parametrize("line", UNBOUNDED, ids=lambda line: line[:30])
def test_a_line_that_is_not_understood_is_unbounded_with_a_reason(here: Bench, line: str) -> None:
    reported = reach(here.judge(line, ""))
    assert reported.kind is ReachKind.UNBOUNDED
    assert reported.why


@each_row(
    "line",
    [
        "cat $(touch pwned)",
        "git diff --output=src/x.py",
        "find . -delete",
        "sort -o notes.txt notes.txt",
        "rg --pre sh x",
    ],
)
def test_options_that_write_take_a_line_off_the_read_only_list(here: Bench, line: str) -> None:
    assert reach(here.judge(line, "")).kind is not ReachKind.READ_ONLY


def test_known_targets_of_an_unbounded_line_are_listed(here: Bench) -> None:
    reported = reach(here.judge("make && rm README.md", ""))
    assert reported.kind is ReachKind.UNBOUNDED
    assert reported.targets == (ReachTarget("README.md", Op.DELETE),)
    reported = reach(here.judge("echo $(touch pwned)", ""))
    assert reported.kind is ReachKind.UNBOUNDED
    assert reported.targets == (ReachTarget("pwned", Op.MODIFY),)


def test_a_target_outside_of_the_workspace_is_marked(here: Bench) -> None:
    reported = reach(here.judge(f"rm {here.outside}/marker.txt", ""))
    assert reported.kind is ReachKind.BOUNDED
    assert reported.targets == (ReachTarget(str(here.outside / "marker.txt"), Op.DELETE, True),)
    assert Path(reported.targets[0].path).is_absolute()


@each_row(
    ("line", "known"),
    [
        ("pytest -q", True),
        ("pytest -q && make", True),
        ("ls", True),
        ("(cd src && rm app.py)", True),
        ("pytest $(cat notes.txt)", False),
        ("pytest `x`", False),
        ("$CMD", False),
        ("pytest -q > $OUT", False),
        ("for x in a; do $x; done", False),
    ],
)
def test_rules_can_allow_a_line_whose_commands_are_all_known(
    here: Bench, line: str, known: bool
) -> None:
    assert all_commands_known(here.judge(line, "")) is known


_TARGETS = st.builds(
    Target, deed=st.sampled_from(Deed), path=st.text(max_size=8), outside=st.booleans()
)
_JUDGEMENTS = st.builds(
    Judgement,
    commands=st.tuples(st.tuples(st.sampled_from(["rm", "mv", "ls", "vim", "cp"]), st.text())),
    targets=st.lists(_TARGETS, max_size=4).map(tuple),
    network=st.booleans(),
    why_not=st.sampled_from(["", "a doubt"]),
    dangers=st.sampled_from([(), ("formats a device",)]),
    too_deep=st.booleans(),
)


@given(_JUDGEMENTS)
def test_nothing_that_may_write_is_called_read_only_and_no_doubt_bounded(
    judgement: Judgement,
) -> None:
    reported = reach(judgement)
    writes = {each.path for each in judgement.targets if each.deed is not Deed.READ}
    assert {each.path for each in reported.targets} == writes
    if reported.kind is ReachKind.READ_ONLY:
        assert judgement.only_reads
    if reported.kind is not ReachKind.UNBOUNDED:
        assert (judgement.why_not, judgement.network, judgement.too_deep) == ("", False, False)
