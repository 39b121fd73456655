import json
from pathlib import Path

import msgspec
import pytest

from rookery.core.asks import AskKind
from rookery.core.facts import CompletionOffered, Todo, TodosChanged
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Outcome
from rookery.errors import BadArguments
from rookery.tools.conversation import (
    AskFollowupQuestion,
    AttemptCompletion,
    UpdateTodoList,
    checklist,
)
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio

ASK, COMPLETE, TODOS = AskFollowupQuestion(), AttemptCompletion(), UpdateTodoList()


async def test_a_question_is_asked_with_its_suggestions_and_the_answer_is_the_result(
    tmp_path: Path,
):
    bench = Bench(tmp_path, Limits(), answers=["port 8080"])
    outcome = await bench.call(
        ASK,
        question="Which port?",
        follow_up=[{"text": "8080"}, {"text": "3000", "mode": "code"}],
    )
    ((kind, text),) = bench.asked
    assert kind is AskKind.FOLLOWUP
    assert json.loads(text) == {
        "question": "Which port?",
        "suggest": [{"answer": "8080"}, {"answer": "3000", "mode": "code"}],
    }
    assert outcome == Outcome(text="<user_message>\nport 8080\n</user_message>")


async def test_nothing_is_asked_before_the_call_is_performed(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    action = await bench.prepare(ASK, question="Which?", follow_up=[{"text": "a"}])
    assert (bench.asked, action.changes_things) == ([], False)


async def test_empty_arguments_are_an_error_of_the_model(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    with pytest.raises(BadArguments):
        await bench.prepare(ASK, question=" ", follow_up=[{"text": "a"}])
    with pytest.raises(BadArguments):
        await bench.prepare(COMPLETE, result="\n")
    with pytest.raises(BadArguments, match=r"\[ \] text"):
        await bench.prepare(TODOS, todos="just words")


def test_one_to_four_answers_can_be_offered():
    for count in (0, 5):
        arguments = {"question": "Which?", "follow_up": [{"text": "a"}] * count}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(arguments, ASK.arguments)


async def test_a_completion_is_offered_once_it_is_performed(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    action = await bench.prepare(COMPLETE, result="All done.")
    assert bench.facts == []
    await bench.call(COMPLETE, result="All done.")
    assert bench.facts == [CompletionOffered(result="All done.")]
    assert not action.changes_things


MARKS = {
    "[ ] a": ("a", "pending"),
    "- [x] a b": ("a b", "completed"),
    "[X] a": ("a", "completed"),
    "  - [-] a ": ("a", "in_progress"),
    "* [~] a": ("a", "in_progress"),
}


def test_each_mark_is_a_status_and_other_lines_are_not_items():
    for line, expected in MARKS.items():
        (todo,) = checklist(line)
        assert (todo.content, todo.status) == expected, line
    for line in ("", "# Plan", "a", "[ ]", "[y] a", "[] a", "see [x](link)"):
        assert checklist(line) == (), line


def test_an_item_keeps_its_id_when_its_status_or_its_place_changes():
    before = {todo.content: todo.id for todo in checklist("[ ] a\n[ ] b")}
    after = {todo.content: todo.id for todo in checklist("[x] b\n[-] a")}
    assert before == after


def test_equal_items_have_different_ids():
    assert len({todo.id for todo in checklist("[ ] a\n[ ] a\n[x] a")}) == 3


async def test_the_list_is_replaced(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    action = await bench.prepare(TODOS, todos="[x] one\n[ ] two")
    await bench.call(TODOS, todos="[x] one\n[ ] two")
    (fact,) = bench.facts
    assert isinstance(fact, TodosChanged)
    one, two = fact.todos
    assert (one, two) == (
        Todo(id=one.id, content="one", status="completed"),
        Todo(id=two.id, content="two", status="pending"),
    )
    assert [todo["content"] for todo in action.payload["todos"]] == ["one", "two"]


async def test_an_empty_list_clears_it(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    await bench.call(TODOS, todos="\n")
    assert bench.facts == [TodosChanged(todos=())]


async def test_a_list_of_too_many_items_is_an_error_of_the_model(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    assert await bench.prepare(TODOS, todos="[ ] x\n" * 1000)
    with pytest.raises(BadArguments, match="more than 1000 items"):
        await bench.prepare(TODOS, todos="[ ] x\n" * 300_000)
