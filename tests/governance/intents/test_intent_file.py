import os
import threading
import time
import tracemalloc
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.governance.intents import intent_file
from rookery.governance.intents.intent import IntentFile, IntentStatus, Verify, digest
from rookery.governance.intents.intent_checks import render, summary
from rookery.governance.intents.intent_context import intent_context
from rookery.governance.intents.intent_file import parse_intents
from rookery.governance.scope.scope_patterns import scope, scope_pattern
from rookery.governance.yaml_nodes import MAX_FAULTS, yaml_nodes
from support.each_row import each_row
from support.intent_files import NAME, NOW, SPEC_EXAMPLE, laid_out, read, reader

pytestmark = pytest.mark.anyio


def intent(*lines: str, id: str = "INT-001") -> str:
    """A file with one good intent, and lines that are added to it."""
    usual = {
        "name": "    name: A name",
        "status": "    status: IN_PROGRESS",
        "owned_scope": '    owned_scope: ["src/**"]',
        "acceptance_criteria": '    acceptance_criteria: [{ text: t, verify: { command: "x" } }]',
    }
    given = {line.split(":")[0].strip() for line in lines}
    kept = [line for key, line in usual.items() if key not in given and f"no {key}" not in lines]
    own = [f"    {line}" for line in lines if not line.startswith("no ")]
    return "\n".join(["active_intents:", f"  - id: {id}", *kept, *own, ""])


def whole(*lines: str) -> str:
    return "\n".join([*lines, ""])


def places(file: IntentFile) -> list[tuple[str, int, int]]:
    return [(each.code, each.line, each.column) for each in file.problems]


FILE_ERRORS = [
    ("E101", b"active_intents: []\n# \xff\n", 2, 3),
    ("E102", b"#" * (5 << 20), 0, 0),
    ("E103", b"active_intents: [\n", 2, 1),
    ("E103", "active_intents: []\n# \u202e\n".encode(), 2, 3),
    ("E103", b"active_intents: []\n#\x07\n", 2, 2),
    ("E103", b'active_intents: []\nx-a: "\\u202e"\n', 2, 6),
    ("E103", b'active_intents: []\nx-a: "\\0"\n', 2, 6),
    ("E104", b"x-a: &a 1\nactive_intents: []\n", 1, 6),
    ("E104", b"x-a: *a\nactive_intents: []\n", 1, 6),
    ("E104", b"x-a: { <<: 1 }\nactive_intents: []\n", 1, 8),
    ("E105", b"x-a: !!str 1\nactive_intents: []\n", 1, 6),
    ("E105", b"x-a: !own [1]\nactive_intents: []\n", 1, 6),
    ("E106", b"active_intents: []\nactive_intents: []\n", 2, 1),
    ("E107", b"active_intents: []\n---\nactive_intents: []\n", 2, 1),
    ("E108", b"x-a: " + b"[" * 14 + b"]" * 14 + b"\nactive_intents: []\n", 1, 17),
    ("E109", b"- a\n", 1, 1),
    ("E109", b"", 1, 1),
    ("E110", b"schema_version: 1\n", 1, 1),
    ("E110", b"active_intents: x\n", 1, 17),
    ("E111", b"active_intents:\n" + b"- {}\n" * 2001, 2, 1),
    ("E112", b"schema_version: 2\nactive_intents: []\n", 1, 17),
]


@pytest.mark.parametrize(
    ("code", "data", "line", "column"),
    FILE_ERRORS,
    ids=[f"{row[0]}-{n}" for n, row in enumerate(FILE_ERRORS)],
)
def test_some_errors_make_the_whole_file_unusable(
    tmp_path: Path, code: str, data: bytes, line: int, column: int
):
    found = reader(laid_out(tmp_path, data)).read()
    assert found.exists
    assert not found.file.usable
    assert (code, line, column) in places(found.file)
    assert not found.file.selectable(NOW)
    problem = next(each for each in found.file.problems if each.code == code)
    assert problem.message
    assert problem.fix or code == "E102"


INTENT_ERRORS = [
    (
        "E201",
        whole("active_intents:", "  - name: x", "    status: PENDING", "    owned_scope: []"),
        2,
        5,
    ),
    ("E201", intent(id="7x"), 2, 9),
    ("E202", intent() + intent(id="int-001").partition("\n")[2], 7, 9),
    ("E203", intent("no name"), 2, 5),
    ("E203", intent('name: " "'), 6, 11),
    ("E204", intent("status: DOING"), 6, 13),
    ("E204", intent("no status"), 2, 5),
    ("E205", intent("no owned_scope"), 2, 5),
    ("E205", intent("owned_scope: []"), 6, 18),
    ("E205", intent('owned_scope: ["!a"]'), 6, 18),
    ("E206", intent("owned_scope:", '  - "src/**"', '  - "../shared/**"'), 8, 9),
    ("E207", intent("owned_scope: src"), 6, 18),
    ("E207", intent("constraints: [[a]]"), 7, 19),
    ("E207", intent("revision: 0"), 7, 15),
    ("E207", intent("priority: high"), 7, 15),
    ("E207", intent("name: |", "  two", "  lines"), 6, 11),
    ("E207", intent("acceptance_criteria: [{ text: a, verify: { timeout_s: 5 } }]"), 6, 46),
    ("E207", intent("acceptance_criteria: [{ verify: { command: x, cwd: ../y } }]"), 6, 56),
    ("E208", intent("name: " + "x" * 201), 6, 11),
    ("E208", intent("description: " + "x" * 4001), 7, 18),
    ("E208", intent(f"constraints: [{'x' * 501}]"), 7, 19),
    (
        "E208",
        intent("acceptance_criteria: [{ text: a, verify: { command: x, timeout_s: 3601 } }]"),
        6,
        71,
    ),
    ("E208", intent("owned_scope:", *["  - a"] * 501), 7, 7),
    ("E209", intent("depends_on: [INT-009]"), 7, 18),
    ("E211", intent("parent: INT-009"), 7, 13),
    ("E211", intent("parent: INT-001"), 7, 13),
    ("E213", intent("created_at: yesterday"), 7, 17),
    ("E213", intent("created_at: 2026-01-01"), 7, 17),
    ("E213", intent("budget: { expires_at: 2026-13-01T00:00:00Z }"), 7, 27),
    ("E214", intent('permissions: { deny: ["Nonsense(x)"] }'), 7, 27),
    ("E215", intent("budget: { max_files: 0 }"), 7, 26),
    ("E215", intent("budget: { max_files: many }"), 7, 26),
]


@pytest.mark.parametrize(
    ("code", "text", "line", "column"),
    INTENT_ERRORS,
    ids=[f"{row[0]}-{n}" for n, row in enumerate(INTENT_ERRORS)],
)
def test_some_errors_make_one_intent_unselectable(code: str, text: str, line: int, column: int):
    file = read(text)
    assert (code, line, column) in places(file)
    assert file.usable
    assert not file.selectable(NOW)
    problem = next(each for each in file.problems if each.code == code)
    assert problem.fix
    assert problem.text == text.split("\n")[line - 1]


def two(first: str, second: str, *, more: str = "") -> str:
    def one(number: int, lines: str) -> str:
        return (
            f"  - id: INT-{number:03}\n    name: n\n    status: IN_PROGRESS\n"
            f"    acceptance_criteria: [{{text: t, verify: {{command: x}}}}]\n    {lines}\n"
        )

    return f"{more}active_intents:\n{one(1, first)}{one(2, second)}"


def test_a_dependency_cycle_is_named():
    scope = "owned_scope: [{}]\n    depends_on: [{}]"
    file = read(two(scope.format("a", "INT-002"), scope.format("b", "INT-001")))
    cycles = [each for each in file.problems if each.code == "E210"]
    assert [(each.intent_id, each.line) for each in cycles] == [("INT-001", 7), ("INT-002", 13)]
    assert all("INT-001 -> INT-002 -> INT-001" in each.message for each in cycles)
    assert file.broken == {"INT-001", "INT-002"}


def test_E212_a_child_stays_inside_its_parent():
    good = two("owned_scope: [src/**]", "owned_scope: [src/a]\n    parent: INT-001")
    bad = two("owned_scope: [src/**]", "owned_scope: [lib/a]\n    parent: INT-001")
    assert not read(good).errors
    assert places(read(bad))[-1] == ("E212", 11, 18)
    assert read(bad).broken == {"INT-002"}


WARNINGS = [
    ("W301", intent("color: red"), 7, 5),
    ("W301", whole("color: red", "active_intents: []"), 1, 1),
    ("W302", intent(id="intent_1"), 2, 9),
    ("W303", intent('owned_scope: ["**"]'), 6, 19),
    ("W304", two("owned_scope: [src/**]", "owned_scope: [src/api/**]"), 6, 18),
    ("W306", intent("no name", "title: x"), 6, 5),
    ("W307", intent("status: in-progress"), 6, 13),
    ("W308", intent("acceptance_criteria: []"), 2, 5),
    ("W309", intent("acceptance_criteria: [by hand]"), 6, 26),
    ("W310", intent("budget: { expires_at: 2026-01-01T00:00:00Z }"), 7, 13),
    ("W312", intent('owned_scope: ["src/**", ".orchestration/**"]'), 6, 29),
    ("W312", intent('owned_scope: ["src/**", ".git"]'), 6, 29),
    (
        "W313",
        two("owned_scope: [a]", "owned_scope: [b]", more="policy: { max_in_progress: 1 }\n"),
        3,
        3,
    ),
]


@pytest.mark.parametrize(
    ("code", "text", "line", "column"),
    WARNINGS,
    ids=[f"{row[0]}-{n}" for n, row in enumerate(WARNINGS)],
)
def test_some_problems_are_only_warnings(code: str, text: str, line: int, column: int):
    file = read(text)
    assert (code, line, column) in places(file)
    assert not file.errors


@each_row("said", ["", "~", "null"])
def test_empty_values_equal_missing_keys(said: str):
    lines = [f"{key}: {said}" for key in ("parent", "owner", "constraints", "budget", "revision")]
    file = read(intent(*lines))
    assert not file.problems
    assert file.intents == read(intent()).intents


def test_a_legal_unusual_id_is_fine():
    assert not read(intent(id="REQ-WEATHER-API-001")).problems


def test_W305_a_pattern_without_a_file_is_warned_about(tmp_path: Path):
    files = ["src/auth/a.py"]
    its = reader(laid_out(tmp_path))
    file = its.with_unmatched(its.read(), lambda text: any(map(scope_pattern(text).covers, files)))
    assert [(each.line, each.column, render(each)) for each in file.problems] == [
        (
            14,
            9,
            f"{NAME}:14:9  warning W305  INT-001 owned_scope[1]\n"
            '    "src/middleware/jwt.py" matches no file yet',
        )
    ]


POLICIES = [
    ("E207", "policy: { deletes: maybe }", "policy.deletes"),
    ("E207", "policy: [a]", "policy"),
    ("E207", "policy: { commands: { sandbox: on } }", "policy.commands.sandbox"),
    ("E207", "policy: { max_in_progress: none }", "policy.max_in_progress"),
    ("E206", 'policy: { protect: ["a[b"] }', "policy.protect[0]"),
]


@each_row(("code", "line", "path"), POLICIES)
def test_a_policy_that_cannot_be_read_stops_everything(code: str, line: str, path: str):
    file = read(f"{line}\n{intent()}")
    assert [(each.code, each.path) for each in file.errors] == [(code, path)]
    assert not file.usable
    assert not file.selectable(NOW)


def test_the_policy_is_read():
    policy = read(
        "policy:\n  deletes: deny\n  commands: { sandbox: required }\n"
        "  commands.on_out_of_scope_write: report\n  protect: [infra/**]\nactive_intents: []\n"
    ).policy
    assert (policy.deletes, policy.sandbox, policy.on_out_of_scope_write) == (
        "deny",
        "required",
        "report",
    )
    assert policy.protect == ("infra/**",)
    assert policy.unknown_targets == "ask"


def test_the_example_is_read(tmp_path: Path):
    found = reader(laid_out(tmp_path)).read()
    assert not found.file.problems
    first = found.file.intents[0]
    assert (first.id, first.revision, first.status) == ("INT-001", 3, IntentStatus.IN_PROGRESS)
    assert first.owned_scope == ("src/auth/**", "src/middleware/jwt.py", "!src/auth/legacy/**")
    assert first.acceptance_criteria[0].verify == Verify(command="pytest -q tests/auth")
    assert first.acceptance_criteria[1].verify is None
    assert first.budget.max_files == 40
    assert first.budget.expires_at
    assert first.permissions.deny == ("execute_command(git push *)",)
    assert first.related[0].url == "urn:speckit:003-auth:FR-004"
    assert [each.id for each in found.file.selectable(NOW)] == ["INT-001"]


@each_row("newline", ["\n", "\r\n"])
@each_row("bom", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_mark_at_the_start_do_not_matter(newline: str, bom: bytes):
    data = bom + SPEC_EXAMPLE.replace("\n", newline).encode()
    assert parse_intents(data, NAME, now=NOW).file == read(SPEC_EXAMPLE)


@each_row(
    ("said", "text"),
    [("no", "no"), ("12:30:45", "12:30:45"), ("012", "012"), ("2026-01-01", "2026-01-01")],
)
def test_scalars_are_read_as_written(said: str, text: str):
    assert read(intent(f"owner: {said}")).intents[0].owner == text


def test_one_bad_intent_leaves_the_others(tmp_path: Path):
    bad = two("owned_scope: [a]", "owned_scope: [../x]") + (
        "  - id: INT-003\n    name: n\n    status: IN_PROGRESS\n    owned_scope: [c]\n"
    )
    file = read(bad)
    assert [each.id for each in file.selectable(NOW)] == ["INT-001", "INT-003"]
    assert "INT-001 and INT-003 stay usable; INT-002 cannot be selected." in summary(file)


def test_an_alias_bomb_is_found_before_anything_is_built():
    levels = "\n".join(
        f"x-{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else 'lol'}]" for n in range(9)
    )
    tracemalloc.start()
    started = time.process_time()
    file = read(f"{levels}\nactive_intents: []\n")
    took, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {each.code for each in file.problems} == {"E104"}
    assert peak < 8 << 20
    assert took < 5


HOSTILE = {
    "deep flow": "x-a: " + "[" * 100_000,
    "deep mapping": "x-a: " + "{a: " * 50_000,
    "deep block": "".join(f"{' ' * n}a:\n" for n in range(900)),
    "many keys": "".join(f"x-{n}: 1\n" for n in range(60_000)) + "active_intents: []\n",
    "long line": "x-a: " + "y" * 1_000_000 + "\nactive_intents: []\n",
    "braces": intent("owned_scope:", *['  - "' + "{a,b}" * 6 + f'{n}"' for n in range(400)]) * 1,
    "many problems": "active_intents:\n" + "- id: 1\n" * 1999,
    "quotes": 'x-a: "' + "\\u0041" * 100_000 + '"\nactive_intents: []\n',
    "parents": "active_intents:\n"
    + "".join(
        f"- {{id: I-{n}, name: n, status: PENDING, parent: I-{n + 1}, owned_scope: [a{n}/**]}}\n"
        for n in range(1990)
    ),
    "stars": "active_intents:\n"
    + "".join(
        f"- {{id: I-{n}, name: n, status: IN_PROGRESS, owned_scope: ['**/*a*b*{n}']}}\n"
        for n in range(1990)
    ),
}


@each_row("name", HOSTILE)
def test_hostile_files_end_soon(name: str):
    started = time.process_time()
    read(HOSTILE[name])
    assert time.process_time() - started < 30


@st.composite
def mutilated(draw: st.DrawFn) -> bytes:
    """The example with pieces of it put elsewhere, left out, or replaced by signs of YAML's own."""
    data = SPEC_EXAMPLE.encode()
    signs = st.sampled_from([*b"&*!|>'\"%@`{}[],:#?-~\t\r\n \xff\x00", *"\u202e\ufeff".encode()])
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 40))
        put = draw(st.one_of(st.lists(signs, max_size=4).map(bytes), st.just(data[:60])))
        data = data[:start] + put + data[end:]
    return data


@settings(deadline=None)
@given(st.one_of(mutilated(), st.binary(max_size=80), st.text(max_size=80).map(str.encode)))
def test_any_file_is_read_or_refused(data: bytes):
    found = parse_intents(data, NAME, now=NOW).file
    assert found.usable or not found.selectable(NOW)
    assert all(each.message and render(each) for each in found.problems)
    for each in found.selectable(NOW):
        assert scope(each.owned_scope).granting
        assert len(digest(each, found.policy)) == 64
        intent_context(each, digest="0" * 64, generated="now", budget=10**6)


def test_a_file_of_many_problems_may_end_in_an_error_of_syntax():
    root, problems = yaml_nodes("a: 1\n" * MAX_FAULTS + "]")
    assert root is None
    assert len(problems) == MAX_FAULTS
    assert "not valid YAML" in problems[-1].message


def test_the_slow_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch):
    import yaml

    quick = yaml_nodes(SPEC_EXAMPLE)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert yaml_nodes(SPEC_EXAMPLE) == quick


def test_the_form_of_an_error():
    text = whole(
        "active_intents:",
        "  - id: INT-002",
        "    name: n",
        "    status: DOING",
        "    owned_scope:",
        '      - "src/**"',
        '      - "../shared/**"',
        "    acceptance_criteria: [{ text: t, verify: { command: x } }]",
    )
    file = read(text)
    assert "\n\n".join(map(render, file.problems)) == (
        f"{NAME}:4:13  error E204  INT-002 status\n"
        "    status: DOING\n"
        "            ^ unknown status\n"
        "  fix: one of PENDING, IN_PROGRESS, PAUSED, COMPLETED, ABANDONED\n"
        "\n"
        f"{NAME}:7:9  error E206  INT-002 owned_scope[1]\n"
        '    - "../shared/**"\n'
        "       ^ a pattern may not climb above the workspace\n"
        '  fix: use a path relative to the workspace root, e.g. "shared/**"'
    )
    assert summary(file) == "2 errors, 0 warnings. INT-002 cannot be selected."
    assert list(file.problems[0].to_json()) == [
        *("file", "line", "column", "severity", "code"),
        *("intent_id", "path", "text", "message", "fix"),
    ]


def test_a_link_may_not_leave_the_workspace(tmp_path: Path):
    outside, inside = tmp_path / "outside.yaml", tmp_path / "work"
    outside.write_text(SPEC_EXAMPLE)
    layout = laid_out(inside)
    layout.intent_file.unlink()
    layout.intent_file.symlink_to(outside)
    assert [each.code for each in reader(layout).read().file.problems] == ["E101"]
    layout.intent_file.unlink()
    (inside / "elsewhere.yaml").write_text(SPEC_EXAMPLE)
    layout.intent_file.symlink_to(inside / "elsewhere.yaml")
    assert reader(layout).read().file.usable


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str):
    layout = laid_out(tmp_path)
    layout.intent_file.unlink()
    if kind == "pipe":
        os.mkfifo(layout.intent_file)
    else:
        layout.intent_file.mkdir()
    assert [each.code for each in reader(layout).read().file.problems] == ["E101"]


def test_a_missing_file_differs_from_an_unusable_one(tmp_path: Path):
    layout = laid_out(tmp_path)
    layout.intent_file.unlink()
    assert not reader(layout).read().exists


def test_a_file_is_parsed_again_only_if_it_changed(tmp_path: Path):
    layout = laid_out(tmp_path)
    its = reader(layout)
    first = its.read()
    assert its.read() is first
    before = layout.intent_file.stat()
    layout.intent_file.write_text(SPEC_EXAMPLE.replace("IN_PROGRESS", "COMPLETED  "))
    os.utime(layout.intent_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    layout.intent_file.write_text(SPEC_EXAMPLE.replace("JWT", "JWX"))
    os.utime(layout.intent_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert its.read().file.intents[0].name.startswith("JWX")


@pytest.mark.parametrize("length", [0, 17, 119, 150, 400, 1000])
@pytest.mark.parametrize("edit", ["JWT", "JWX"])
async def test_a_file_that_is_being_saved_is_looked_at_again(
    tmp_path: Path, length: int, edit: str
):
    layout = laid_out(tmp_path)
    its = reader(layout)
    await its.read_settled("INT-001")
    saved = SPEC_EXAMPLE.replace("JWT", edit)
    layout.intent_file.write_text(saved[:length])
    assert its.read().file != read(saved)
    saver = threading.Timer(0.03, _save, [layout.intent_file, saved])
    saver.start()
    assert (await its.read_settled("INT-001")).file == read(saved)
    saver.join()


def _save(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


async def test_a_file_that_was_shortened_on_purpose_is_read_as_it_is(tmp_path: Path):
    layout = laid_out(tmp_path)
    its = reader(layout)
    await its.read_settled("INT-001")
    shorter = SPEC_EXAMPLE[: SPEC_EXAMPLE.index("  - id: INT-003")].replace("[INT-003]", "[]")
    layout.intent_file.write_text(shorter)
    assert (await its.read_settled("INT-001")).file == read(shorter)


async def test_a_broken_file_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    layout = laid_out(tmp_path, "[")
    its = reader(layout)
    assert not (await its.read_settled()).file.usable
    with monkeypatch.context() as longer, anyio.fail_after(60):
        longer.setattr(intent_file, "READ_INTERVAL", 600)
        assert not (await its.read_settled()).file.usable
    layout.intent_file.unlink()
    assert not (await its.read_settled()).exists
