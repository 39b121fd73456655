import json
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.errors import RookeryError
from rookery.governance.intents.intent import (
    Constraint,
    Criterion,
    Intent,
    IntentStatus,
    LastVerification,
    StatusChange,
    Verify,
    move,
)
from rookery.governance.intents.intent_edits import (
    AddHistory,
    AddIntent,
    AddScope,
    Edit,
    IntentWriter,
    PlannedChange,
    SetField,
    SetVerification,
    apply_edit,
    edits_for,
    expected_intent,
)
from rookery.governance.intents.intent_file import IntentText, parse_intents
from rookery.governance.layout import Layout, init
from support.access_lists import restrict, still_restricted
from support.each_row import each_row
from support.intent_files import NAME, NOW, SPEC_EXAMPLE, laid_out, reader

COMMENTED = """\
# About this file
schema_version: 1   # the only one

active_intents:
  # the first
  - id: INT-001   # its id
    name: 'Quoted name'
    status: IN_PROGRESS # busy
    owned_scope:   # what it owns
      - "src/auth/**"   # all of it
      - src/b.py
      # a last word about the scope

    x-own: { keep: [me] }
  - id: INT-002
    status: pending
    name: "Second"
    description: |
      Two
      lines

    owned_scope: [a, 'b']   # flow
  # between
  - {id: INT-003, name: third, status: PAUSED, owned_scope: []}
  - id: INT-004
    name: indentless
    owned_scope:
    - x
    status: >-
      PENDING
    revision: 4
    last_verification:
      at: "2026-01-01T00:00:00Z"
      ok: false
# the end
x-more: 1
"""
EDITS: dict[str, Edit] = {
    "status": SetField("status", "ABANDONED"),
    "revision": SetField("revision", "7"),
    "scope": AddScope('src/"odd" café/**'),
    "history": AddHistory(
        StatusChange(status="PAUSED", at="2026-02-20T12:00:00Z", by="somebody", reason="a: # b")
    ),
    "verification": SetVerification(
        LastVerification(at="2026-02-20T12:00:00Z", ok=True, criteria=("A1",), trace_id="t")
    ),
}


def after(text: str, intent_id: str, edit: Edit) -> str:
    found = parse_intents(text.encode(), NAME, now=NOW)
    assert found.root
    return apply_edit(text, found.root, intent_id, edit)


def check(text: str, intent_id: str, edit: Edit) -> str:
    """The edit does what it is to do, and leaves every other byte where it was."""
    before, result = parse_intents(text.encode(), NAME, now=NOW).file, after(text, intent_id, edit)
    found = parse_intents(result.encode(), NAME, now=NOW).file
    wanted = tuple(
        expected_intent(each, edit) if each.id == intent_id else each for each in before.intents
    )
    assert found.intents == wanted
    assert only_one_piece_differs(text, result)
    return result


def only_one_piece_differs(old: str, new: str) -> bool:
    """The edit removed only a single short value."""
    start = same_at_the_start(old, new)
    end = same_at_the_start(old[start:][::-1], new[start:][::-1])
    taken = old[start : len(old) - end]
    return "#" not in taken and taken.count("\n") <= 2


def same_at_the_start(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@each_row("newline", ["\n", "\r\n"])
@each_row("intent_id", ["INT-001", "INT-002", "INT-003", "INT-004"])
@each_row("name", EDITS)
def test_an_edit_changes_only_its_own_lines(name: str, intent_id: str, newline: str):
    text = COMMENTED.replace("\n", newline)
    result = check(text, intent_id, EDITS[name])
    assert result.count("#") >= text.count("#")
    assert result.count("\r\n") == (result.count("\n") if newline == "\r\n" else 0)


@each_row("name", EDITS)
def test_a_file_without_a_last_newline(name: str):
    check(SPEC_EXAMPLE.rstrip("\n"), "INT-003", EDITS[name])


def test_a_scope_grows_by_one_line_and_the_comments_stay():
    result = check(COMMENTED, "INT-001", AddScope("src/api/user.py"))
    assert result == COMMENTED.replace(
        "      - src/b.py\n", '      - src/b.py\n      - "src/api/user.py"\n'
    )


def test_a_status_is_replaced_in_its_line():
    result = check(COMMENTED, "INT-001", SetField("status", "PAUSED"))
    assert result == COMMENTED.replace("status: IN_PROGRESS # busy", "status: PAUSED # busy")


NEW = Intent(
    id="INT-009",
    name='A "new": one #',
    owned_scope=("src/api/limits/**", "!x"),
    constraints=(Constraint(text="c: d"),),
    acceptance_criteria=(
        Criterion(text="t", verify=Verify(command="pytest -q tests/limits")),
        Criterion(text="by hand"),
    ),
    created_at="2026-02-20T12:00:00Z",
)
LISTS = [
    COMMENTED,
    SPEC_EXAMPLE,
    SPEC_EXAMPLE.rstrip("\n"),
    "active_intents: []\n",
    "active_intents: []   # none yet\nx-a: 1\n",
    "active_intents: []",
    "x-a: 1\nactive_intents:\n- {id: INT-001, name: n, status: PENDING, owned_scope: []}\n",
    "active_intents: [{id: INT-001, name: n, status: PENDING, owned_scope: []}]\n",
]


@each_row("text", LISTS)
@each_row("intent", [NEW, Intent(id="INT-010", name="bare")])
def test_a_new_intent_is_added_at_the_end(text: str, intent: Intent):
    before, result = (
        parse_intents(text.encode(), NAME, now=NOW).file,
        after(text, "", AddIntent(intent)),
    )
    assert parse_intents(result.encode(), NAME, now=NOW).file.intents == (*before.intents, intent)
    assert result.count("#") >= text.count("#")


def test_edits_of_unknown_intents_or_fields_are_refused():
    with pytest.raises(RookeryError, match="No INT-999"):
        after(COMMENTED, "INT-999", AddScope("a"))
    with pytest.raises(RookeryError, match="not a list"):
        after(
            COMMENTED.replace("owned_scope: [a, 'b']", "owned_scope: a"), "INT-002", AddScope("b")
        )


WORDS = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029\ufeff"),
    max_size=20,
).filter(
    lambda text: (
        not any(
            sign in text
            for sign in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        )
    )
)
COMMENTS = st.one_of(st.just(""), WORDS.map(lambda text: f"  # {text}"))
LINES = st.one_of(st.just(""), COMMENTS.map(str.strip))


STATUSES = ["PENDING", "IN_PROGRESS", '"PAUSED"', "in progress"]


@st.composite
def files(draw: st.DrawFn) -> str:
    """Intent files in many layouts, with comments everywhere."""
    lines = [draw(LINES), f"active_intents:{draw(COMMENTS)}"]
    for number in range(draw(st.integers(1, 4))):
        dash = "- " if draw(st.booleans()) else "-   "
        pad = " " * len(dash)
        fields = [
            f"name: {json.dumps('n' + draw(WORDS), ensure_ascii=False)}",
            f"status: {draw(st.sampled_from(STATUSES))}",
            draw(
                st.sampled_from(
                    [
                        "owned_scope: [src/**]",
                        "owned_scope:\n{}- src/**\n{}- b",
                        "owned_scope:\n{}  - c",
                    ]
                )
            ),
            *draw(
                st.lists(
                    st.sampled_from(
                        [
                            "revision: 3",
                            "description: |\n{}  deep\n\n{}  text",
                            "x-a: {b: [c]}",
                            "tags: []",
                        ]
                    ),
                    unique=True,
                )
            ),
        ]
        fields = [f"id: INT-{number:03}", *draw(st.permutations(fields))]
        for at, field in enumerate(fields):
            said = field.replace("{}", pad)
            comment = "" if "|" in said or "\n" in said else draw(COMMENTS)
            lines.append(f"{pad if at else dash}{said}{comment}")
            if "|" not in said:
                lines += [f"{pad}{each}" if each else "" for each in [draw(LINES)]]
    return "\n".join([*lines, draw(LINES), ""])


@settings(deadline=None)
@given(files(), st.sampled_from(list(EDITS)), st.booleans())
@example(
    "active_intents:\n- id: INT-000\n  name: n\n  status: PENDING\n  owned_scope: [a]",
    "scope",
    False,
)
def test_round_trips_keep_all_other_bytes(text: str, name: str, windows: bool):
    text = text.replace("\n", "\r\n") if windows else text
    found = parse_intents(text.encode(), NAME, now=NOW)
    assert found.file.usable, found.file.problems
    for intent in found.file.intents:
        check(text, intent.id, EDITS[name])
    added = after(text, "", AddIntent(NEW))
    assert parse_intents(added.encode(), NAME, now=NOW).file.intents == (*found.file.intents, NEW)
    assert only_one_piece_differs(text, added)


def start(text: IntentText) -> PlannedChange:
    intent = text.file.find("INT-001")
    assert intent
    wanted = move("pause", intent.status)
    if wanted is None:
        raise RookeryError("INT-001 cannot be paused.")
    edits = edits_for(wanted, intent, at="2026-02-20T12:00:00Z", by="me", reason="lunch")
    return PlannedChange(intent_id="INT-001", edits=edits)


def edited(layout: Layout, edit: Edit, intent_id: str = "INT-001") -> None:
    writer(layout).change(lambda _: PlannedChange(intent_id=intent_id, edits=(edit,)))


def writer(layout: Layout) -> IntentWriter:
    return IntentWriter(layout, now=lambda: NOW)


def test_a_move_is_written(tmp_path: Path):
    layout = laid_out(tmp_path, COMMENTED)
    restrict(layout.intent_file)
    result = writer(layout).change(start).after
    intent = reader(layout).read().file.find("INT-001")
    assert result.file.find("INT-001") == intent
    assert intent
    assert intent.status is IntentStatus.PAUSED
    assert intent.status_history[-1].reason == "lunch"
    assert still_restricted(layout.intent_file)
    assert [each.name for each in layout.folder.iterdir() if each.name.startswith(".act")] == []


def test_a_change_is_planned_for_the_file_as_it_is(tmp_path: Path):
    layout = laid_out(tmp_path, COMMENTED)
    writer(layout).change(start)
    assert "status: PAUSED # busy" in layout.intent_file.read_text()
    with pytest.raises(RookeryError, match="cannot be paused"):
        writer(layout).change(start)


def test_a_save_during_the_write_wins(tmp_path: Path):
    layout = laid_out(tmp_path, COMMENTED)
    second = COMMENTED + "# second\n"

    def plan(text: IntentText) -> PlannedChange:
        layout.intent_file.write_text(second)
        return start(text)

    with pytest.raises(RookeryError, match="another process"):
        writer(layout).change(plan)
    assert layout.intent_file.read_text() == second
    assert sorted(each.name for each in layout.folder.iterdir()) == [
        ".state",
        "active_intents.yaml",
    ]


def test_an_invalid_result_is_not_written(tmp_path: Path):
    layout = laid_out(tmp_path, COMMENTED)
    for edit in (AddScope("../x"), SetField("status", "COMPLETED\n    name: other")):
        with pytest.raises((RookeryError, ValueError)):
            edited(layout, edit)
    broken = replace(NEW, id="INT-001")
    with pytest.raises(RookeryError, match="INT-001"):
        edited(layout, AddIntent(broken))
    assert layout.intent_file.read_text() == COMMENTED


def test_a_broken_file_is_not_written(tmp_path: Path):
    layout = laid_out(tmp_path, "active_intents: [")
    with pytest.raises(RookeryError, match="errors"):
        edited(layout, AddScope("a"))


def test_a_link_in_the_place_of_the_hosts_folder_is_not_followed(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    layout = laid_out(tmp_path / "work", COMMENTED)
    layout.state.symlink_to(elsewhere)
    with pytest.raises(RookeryError, match="link"):
        writer(layout).change(start)
    assert list(elsewhere.iterdir()) == []


def _grow(root: str, name: str, count: int) -> None:
    layout = Layout(Path(root), Path(root))
    for number in range(count):
        edited(layout, AddScope(f"src/{name}/{number}"))


def test_two_processes_lose_no_edits(tmp_path: Path):
    layout = laid_out(tmp_path, COMMENTED)
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_grow, args=(str(layout.root), name, 8)) for name in ("a", "b")
    ]
    for each in workers:
        each.start()
    for each in workers:
        each.join(60)
    intent = reader(layout).read().file.find("INT-001")
    assert intent
    wanted = {f"src/{name}/{number}" for name in ("a", "b") for number in range(8)}
    assert wanted <= set(intent.owned_scope)


def test_the_first_intent_of_a_new_folder(tmp_path: Path):
    init(tmp_path)
    layout = Layout(tmp_path, tmp_path)
    assert not reader(layout).read().file.problems
    edited(layout, AddIntent(NEW), NEW.id)
    assert reader(layout).read().file.intents == (NEW,)
    assert "# Add one with" in layout.intent_file.read_text()
