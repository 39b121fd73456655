"""The pieces of an answer are assembled in any order and shape."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.folds.argument_reader import ArgumentReader
from rookery.engine.answer_assembler import DEEPEST, Assembler, read_arguments, safe_id
from support.each_row import each_row
from support.timeouts import patience


def numbered(prefix: str = "new") -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


def only_call(assembler: Assembler) -> ToolCall:
    (block,) = assembler.blocks()
    assert isinstance(block, ToolCall)
    return block


def call_with(arguments: str, **options: Any) -> ToolCall:
    assembler = Assembler(**options)
    assembler.add_call(0, arguments, "c1", "edit")
    return only_call(assembler)


# ── order ───────────────────────────────────────────────────────────────────────────────


def test_blocks_keep_the_order_in_which_they_started():
    assembler = Assembler()
    assembler.add_thinking("Hm", source="s")
    assembler.add_thinking(".", signature="sig", source="s")
    assembler.add_text("First ")
    assembler.add_text("this.")
    assembler.add_call(0, '{"path"', "c1", "read_file")
    assembler.add_text("Then that.")
    assembler.add_call(0, ': "a"}')
    assembler.add_call(1, "", "c2", "list_files")
    assert assembler.blocks() == (
        Thinking(text="Hm.", signature="sig", source="s"),
        Text(text="First this."),
        ToolCall(id="c1", name="read_file", arguments={"path": "a"}),
        Text(text="Then that."),
        ToolCall(id="c2", name="list_files"),
    )


def test_an_interrupted_answer_keeps_its_text_and_no_call():
    assembler = Assembler()
    assembler.add_text("So: ")
    assembler.add_call(0, '{"path": "a', "c1", "read_file")
    assembler.add_thinking("hm")
    assert assembler.said() == (Text(text="So: "), Thinking(text="hm"))


def test_a_signature_ends_its_block_and_one_without_text_is_a_block():
    assembler = Assembler()
    assembler.add_thinking("a")
    assembler.add_thinking("", signature="s1")
    assembler.add_thinking("", signature="hidden")
    assembler.add_thinking("b")
    assert assembler.blocks() == (
        Thinking(text="a", signature="s1"),
        Thinking(text="", signature="hidden"),
        Thinking(text="b"),
    )


def test_reasoning_of_another_source_is_another_block():
    assembler = Assembler()
    assembler.add_thinking("a", source="one")
    assembler.add_thinking("b", source="two")
    assert assembler.blocks() == (
        Thinking(text="a", source="one"),
        Thinking(text="b", source="two"),
    )


def test_blank_text_makes_no_block():
    assembler = Assembler()
    assembler.add_text("\n\n")
    assembler.add_call(0, "", "c1", "list_files")
    assert [type(block) for block in assembler.blocks()] == [ToolCall]


def test_split_surrogate_pairs_are_joined():
    assembler = Assembler()
    assembler.add_text("ok \ud83d")
    assembler.add_text("\ude00 \ud83d")
    assert assembler.blocks() == (Text(text="ok \U0001f600 �"),)


def test_the_answer_is_right_after_every_piece():
    assembler = Assembler()
    seen = []
    for piece in ("a", "b"):
        assembler.add_text(piece)
        seen.append(assembler.blocks())
    assembler.add_call(0, "{}", "", "list_files")
    seen += [assembler.blocks(), assembler.blocks()]
    call = ToolCall(id="call_1", name="list_files")
    assert seen == [
        (Text(text="a"),),
        (Text(text="ab"),),
        (Text(text="ab"), call),
        (Text(text="ab"), call),
    ]


# ── calls and their ids ─────────────────────────────────────────────────────────────────


def test_deltas_of_several_calls_are_separated_by_index():
    assembler = Assembler()
    for piece in ((0, '{"a"', "c1", "one"), (1, '{"b"', "c2", "two"), (0, ":1}"), (1, ":2}")):
        assembler.add_call(*piece)
    assert assembler.blocks() == (
        ToolCall(id="c1", name="one", arguments={"a": 1}),
        ToolCall(id="c2", name="two", arguments={"b": 2}),
    )


def test_an_id_and_a_name_may_come_late_and_with_every_piece():
    assembler = Assembler()
    assert assembler.add_call(4, '{"a"') == (0, "")
    assert assembler.add_call(4, ":", "c1", "one") == (0, "one")
    assert assembler.add_call(4, "1}", "c1", "one") == (0, "one")
    assert only_call(assembler) == ToolCall(id="c1", name="one", arguments={"a": 1})


def test_a_start_that_is_replayed_is_the_same_call():
    assembler = Assembler()
    for piece in ("", '{"a":1}', ""):
        assembler.add_call(0, piece, "c1", "one")
    assert only_call(assembler).arguments == {"a": 1}


def test_calls_with_the_same_index_are_separated_by_their_starts():
    assembler = Assembler()
    assert assembler.add_call(0, '{"a":1}', "c1", "one") == (0, "one")
    assert assembler.add_call(0, '{"a":2}', "c2", "one") == (1, "one")
    assert [block.arguments for block in assembler.blocks() if isinstance(block, ToolCall)] == [
        {"a": 1},
        {"a": 2},
    ]


def test_missing_ids_are_assigned():
    assembler = Assembler(new_id=numbered())
    assembler.add_call(0, "", "", "one")
    assembler.add_call(1, "", "", "two")
    assert [block.id for block in assembler.blocks() if isinstance(block, ToolCall)] == [
        "new1",
        "new2",
    ]


def test_ids_used_twice_are_changed_within_the_answer_and_against_the_task():
    assembler = Assembler(used_ids={"c1"})
    for index, id in enumerate(("c1", "c2", "c2", "c.2", "c_2")):
        assembler.add_call(index, "", id, "one")
    ids = [block.id for block in assembler.blocks() if isinstance(block, ToolCall)]
    assert ids == ["c1_2", "c2", "c2_2", "c_2", "c_2_2"]


def test_an_assigned_id_is_unused():
    assembler = Assembler(used_ids={"call_1"})
    assembler.add_call(0, "", "", "one")
    assert only_call(assembler).id == "call_1_2"


@given(st.lists(st.text(max_size=100), max_size=6))
def test_every_id_is_valid_for_every_provider(ids: list[str]):
    assembler = Assembler()
    for index, id in enumerate(ids):
        assembler.add_call(index, "", id, "one")
    safe = [block.id for block in assembler.blocks() if isinstance(block, ToolCall)]
    assert len(set(safe)) == len(ids)
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert all(0 < len(id) <= 64 and set(id) <= allowed for id in safe)


def test_long_ids_stay_different():
    first, second = safe_id("x" * 80 + "1"), safe_id("x" * 80 + "2")
    assert first != second
    assert len(first) == len(second) == 64


def test_a_call_without_a_name_is_kept():
    assembler = Assembler()
    assembler.add_call(0, "{}", "c1")
    assert only_call(assembler) == ToolCall(id="c1", name="")


# ── arguments ─────────────────────────────────────────────────────────


@each_row("text", ["", "  \n", "{}", " { } "])
def test_no_arguments_are_an_empty_object(text: str):
    assert call_with(text) == ToolCall(id="c1", name="edit")


@each_row(
    ("text", "problem"),
    [
        ('{"path": "a', "Unterminated string starting at, at line 1, column 10 (character 9)"),
        ('{"path": "a"', "at line 1, column 13 (character 12)"),
        ('{"a": 1} x', "Extra data, at line 1, column 10 (character 9)"),
        ('{"a": 1}{"a": 1}', "Extra data, at line 1, column 9 (character 8)"),
        ("{'a': 1}", "(character 1)"),
        ('{"a": "x\ny"}', "Invalid control character at, at line 1, column 9 (character 8)"),
        ("[1]", "an array, from character 0 on, not an object"),
        ('"{}"', "a string, from character 0 on, not an object"),
        ("null", "null, from character 0 on, not an object"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', 'the key "c" twice'),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "1e999, which is too large"),
        ('{"a": 18446744073709551616}', "18446744073709551616…, which is too large"),
        ('{"a": ' + "9" * 5000 + "}", "999999999999999999999999…, which is too large"),
        ('{"a": "\\ud800"}', "\\ud800, half a character"),
        ('{"a": ' + "[" * 99 + "]" * 99 + "}", f"more than {DEEPEST} deep at character 69"),
        ('{"a": ' + "[" * 200_000, f"more than {DEEPEST} deep at character 69"),
    ],
)
def test_arguments_that_are_not_an_object_are_a_problem_with_a_reason(text: str, problem: str):
    call = call_with(text)
    assert problem in call.problem
    assert call.arguments == {}


def test_a_repeated_key_is_found_among_many():
    keys = [f'"{number}":0' for number in range(180_000)]
    with patience():
        assert (
            'the key "179999" twice' in call_with("{" + ",".join([*keys, keys[-1]]) + "}").problem
        )


def test_brackets_inside_strings_are_not_nesting():
    text = json.dumps({"content": "[{" * 500 + '\\"'})
    assert call_with(text).arguments == {"content": "[{" * 500 + '\\"'}


def test_arguments_over_the_limit_are_refused_unread():
    assert call_with('{"a": "ä"}', largest=11).arguments == {"a": "ä"}
    call = call_with('{"a": "ää"}', largest=11)
    assert call.problem.startswith("The arguments have 13 bytes; at most 11 are accepted.")


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=5)


@given(OBJECTS, st.booleans())
def test_any_object_is_read_as_json_reads_it(value: dict[str, Any], ascii: bool):
    assert read_arguments(json.dumps(value, ensure_ascii=ascii)) == value


def outcome(text: str) -> dict[str, Any] | str:
    try:
        return read_arguments(text)
    except ValueError as error:
        return str(error)


@given(st.text())
def test_reading_any_text_gives_an_object_or_a_sentence(text: str):
    read = outcome(text)
    assert isinstance(read, dict) or read.endswith(".")


# ── the reader of growing arguments (P1) ────────────────────────────────────────────────


@st.composite
def in_pieces(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """An object, and its text cut anywhere; surrogates included, in any spelling."""
    texts = st.text(st.characters() | st.sampled_from('"\\/\n\t\ud83d\ude00\U0001f600'), max_size=8)
    inner = JSON_VALUES | texts
    value = draw(st.dictionaries(texts, inner, max_size=4))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.none() | st.just(1)))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return json.loads(text), [
        text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)
    ]


@given(in_pieces())
def test_after_the_last_piece_the_fields_are_those_of_the_object(
    case: tuple[dict[str, Any], list[str]],
):
    value, pieces = case
    reader = ArgumentReader()
    for piece in pieces:
        reader.feed(piece)
    assert reader.fields == value
    assert reader.growing_key is None


@given(in_pieces())
def test_known_fields_never_change(case: tuple[dict[str, Any], list[str]]):
    value, pieces = case
    reader = ArgumentReader()
    for character in "".join(pieces):
        reader.feed(character)
        assert all(value[key] == known for key, known in reader.fields.items())
        if reader.growing_key is not None:
            assert value[reader.growing_key].startswith(reader.growing_text)


def test_a_path_is_known_when_it_is_complete_and_a_content_while_it_grows():
    reader = ArgumentReader()
    reader.feed('{"path": "src/a')
    assert (reader.fields, reader.growing_key, reader.growing_text) == ({}, "path", "src/a")
    reader.feed('.py", "content": "import')
    assert reader.fields == {"path": "src/a.py"}
    assert reader.known() == {"path": "src/a.py", "content": "import"}
    reader.feed(' os\\n"')
    assert reader.fields == {"path": "src/a.py", "content": "import os\n"}


@each_row("text", ["[1, 2]", '"x"', "{1: 2}", '{"a" 1}', '{"a": tru}', "}", "x"])
def test_text_that_is_not_an_object_stops_the_reader(text: str):
    reader = ArgumentReader()
    reader.feed(text)
    reader.feed('{"b": 1}')
    assert reader.fields == {}


def test_excessive_nesting_stops_the_reader():
    reader = ArgumentReader()
    reader.feed('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert reader.fields == {}


@pytest.mark.parametrize("step", [1, 16, 1_000_000])
@pytest.mark.parametrize(
    "value",
    [
        {"path": "a", "content": 'x\n"é\\' * 2_000},
        {"list": [{"deep": "x]}" * 20}] * 200},
        {str(number): number for number in range(2_000)},
    ],
    ids=["string", "nested", "many fields"],
)
def test_every_character_is_read_a_bounded_number_of_times(value: dict[str, Any], step: int):
    text = json.dumps(value)
    reader = ArgumentReader()
    for start in range(0, len(text), step):
        reader.feed(text[start : start + step])
    assert reader.fields == value
    assert len(text) <= reader.scanned <= 2 * len(text)
