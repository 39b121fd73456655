"""The kind of a task, and the next move."""

from collections.abc import Mapping
from typing import Any

from rookery.core.blocks import Text, ToolCall, ToolResult
from rookery.core.folds.history import Turn
from rookery.core.replies import denied, user_message
from rookery.guided.choice import Rename, rename_in, renamed
from rookery.guided.moves import Finish, GuidedCall, Look, Try, asks, next_move
from rookery.guided.record import (
    LIST,
    PATCH,
    READ,
    RESTORING,
    RUN,
    WRITE,
    form_of,
    in_form,
    read_record,
)
from support.each_row import each_row

ASKS = [
    "What does add do?",
    "How many TODO comments are in src? Answer with the number only.",
    "Which pages still use legacyFetch? List the files, nothing else. Don't change anything.",
    "In which file is parse defined?",
    "How do I add a flag to the command?",
    "Explain main.py.",
    "hello",
]
CHANGES = [
    "Fix add.",
    "sum([]) throws. It should return 0.",
    "find(values, wanted) never finds the last element.",
    "Count the files in src and write the number to count.txt.",
    "What is wrong in calc.py? Fix it.",
    "deploy.yaml: web should have 5 replicas instead of 2.",
    "I need a script fizz.js.",
    "Give Stack a method peek().",
    "`node main.js` prints [object Promise] instead of the name.",
]


@each_row("task", ASKS)
def test_a_question_changes_nothing(task: str):
    assert asks(task)


@each_row("task", CHANGES)
def test_anything_else_is_a_change(task: str):
    assert not asks(task)


RENAMES = [
    ("Rename calc to priceWithTax in prices.js", Rename("calc", "priceWithTax", False)),
    ("Rename the function get_data to load_all everywhere.", Rename("get_data", "load_all", False)),
    ("The class Vec should be called Vector.", Rename("Vec", "Vector", False)),
    ("Rename utils.js to strings.js", Rename("utils.js", "strings.js", True)),
    ("Move `a.py` to `lib/a.py`.", Rename("a.py", "lib/a.py", True)),
    ("Fix the rename bug", None),
]


@each_row(("task", "rename"), RENAMES)
def test_a_rename_is_recognised(task: str, rename: Rename | None):
    assert rename_in(task) == rename


def test_an_identifier_is_renamed_in_all_code_files():
    files = {"a.js": "calc(1); recalc(2); o.calc\n", "b.js": "1\n", "calc.txt": "calc\n"}
    assert renamed(Rename("calc", "sum", False), files) == {"a.js": "sum(1); recalc(2); o.sum\n"}
    assert renamed(Rename("calc", "recalc", False), files) == {}


def test_a_renamed_file_is_loaded_by_its_new_name():
    files = {
        "utils.js": "exports.a = 1;\n",
        "main.js": 'const u = require("./utils");\nconst utils = 1;\n',
        "app.js": 'import "./utils.js";\n',
    }
    assert renamed(Rename("utils.js", "strings.js", True), files) == {
        "strings.js": "exports.a = 1;\n",
        "utils.js": None,
        "main.js": 'const u = require("./strings");\nconst utils = 1;\n',
        "app.js": 'import "./strings.js";\n',
    }


TOOLS = (LIST, READ, WRITE, RUN)
OLD = {"a.py": "a = 1\n", "b.py": "b = 1\n"}
DENIED = denied()
FAILED = "Exit code: 1\nOutput:\nValueError: no\n"


def edits_of(edits: Mapping[str, str | None]) -> list[GuidedCall]:
    return [
        GuidedCall(PATCH, {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"})
        if text is None
        else GuidedCall(WRITE, {"path": path, "content": text})
        for path, text in edits.items()
    ]


def conversation(*answers: tuple[str, list[tuple[GuidedCall, str]]]) -> list[Turn]:
    """A task whose files were listed and read, and the answers that followed."""
    shown = "\n---\n".join(f"File: {path}\n1 | {text[:-1]}" for path, text in OLD.items())
    looked = ("", [(GuidedCall(LIST, {}), "\n".join(OLD)), (GuidedCall(READ, {}), shown)])
    turns = [Turn("user", (Text(text=user_message("Fix it, see `python3 c.py`.")),))]
    for number, (words, calls) in enumerate([looked, *answers]):
        made = [
            ToolCall(id=f"{number}-{index}", name=call.tool, arguments=call.arguments)
            for index, (call, _) in enumerate(calls)
        ]
        reported = [
            ToolResult(call_id=call.id, text=text, is_error=text == DENIED)
            for call, (_, text) in zip(made, calls, strict=True)
        ]
        turns += [Turn("assistant", (Text(text=words), *made)), Turn("user", tuple(reported))]
    return turns


def attempt(number: int, results: dict[str, str], words: str = "", **edits: Any) -> Any:
    """An attempt with edits by the stem of the file, and the results that are not just done."""
    calls = edits_of({f"{stem}.py": text for stem, text in edits.items()})
    said = [(call, results.get(str(call.arguments.get("path", "")), "Done.")) for call in calls]
    check = (GuidedCall(RUN, {"command": "python3 c.py"}), FAILED)
    return f"Attempt {number} of 5. {words}", [*said, check]


def restoring(result: str, **edits: Any) -> Any:
    calls = edits_of({f"{stem}.py": text for stem, text in edits.items()})
    return f"It did not help. {RESTORING}", [(call, result) for call in calls]


def next_of(*answers: Any) -> Any:
    return next_move(read_record(conversation(*answers)), TOOLS)


def test_a_denied_edit_undoes_the_others():
    denied_b = attempt(1, {"b.py": DENIED}, a="a = 2\n", b="b = 2\n", c="c = 1\n")
    move = next_of(denied_b)
    assert isinstance(move, Look)
    assert list(move.calls) == edits_of({"a.py": OLD["a.py"], "c.py": None})
    assert RESTORING in move.words
    assert next_of(attempt(1, {"a.py": DENIED}, a="a = 2\n")) == Finish(
        "The change was not made, so I stopped."
    )


def test_files_that_could_not_be_restored_are_named():
    last = attempt(5, {}, a="a = 2\n")
    assert "the files are as they were" in next_of(last, restoring("Done.", a=OLD["a.py"])).words
    assert "not be restored: a.py." in next_of(last, restoring(DENIED, a=OLD["a.py"])).words


def test_a_created_file_is_deleted_only_once():
    first = attempt(1, {}, c="c = 1\n")
    second = attempt(2, {}, c=None, a="a = 2\n")
    last = attempt(5, {}, a="a = 3\n")
    assert list(next_of(first, second, last).calls) == edits_of({"a.py": OLD["a.py"]})


def test_the_words_of_a_plan_do_not_end_a_task():
    assert next_of(attempt(1, {}, RESTORING, a="a = 2\n")) == Try(1, "ValueError: no")


FORMS = [
    ("a\nb\n", ""),
    ("a\nb", "no newline at the end"),
    ("a\r\nb\r\n", "CRLF line ends"),
    ("\ufeffa\r\nb", "byte-order mark, CRLF line ends, no newline at the end"),
    ("a\r\nb\n", None),
    ("a\nb\ufffd\n", None),
    ("a\nbbb\n", None),
]


@each_row(("text", "form"), FORMS)
def test_the_form_of_a_file_is_known_if_its_lines_lead_back_to_it(text: str, form: str | None):
    assert form_of(text, "a\nb\n") == form
    assert form is None or in_form("a\nb\n", form) == text
