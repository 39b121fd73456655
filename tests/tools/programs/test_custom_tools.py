import re
from pathlib import Path

import pytest

import rookery
from rookery.tools.programs.custom_tool import (
    ToolDefinition,
    ToolParameter,
    reserved,
    tool_definition,
)
from support.each_row import each_row

GOOD = 'description = "Count"\ncommand = ["wc"]\n'


def test_a_file_defines_a_tool():
    text = """
    description = "Count words\u200b"
    command = ["python3", "count.py"]
    [parameters.path]
    type = "string"
    description = "Where"
    required = true
    [parameters.most]
    type = "integer"
    """
    assert tool_definition("count_words", text) == ToolDefinition(
        "count_words",
        "Count words<U+200B>",
        (
            ToolParameter("path", "string", "Where", required=True),
            ToolParameter("most", "integer", "", required=False),
        ),
        ("python3", "count.py"),
    )


@each_row(
    ("name", "text", "wrong"),
    [
        ("x", GOOD, "its name must"),
        ("Count", GOOD, "its name must"),
        ("count-it", GOOD, "its name must"),
        ("c" * 42, GOOD, "its name must"),
        ("read_file", GOOD, "built-in tool"),
        ("mcp__files__read", GOOD, "MCP servers"),
        ("count", "description = ", "it is not valid TOML"),
        ("count", 'command = ["wc"]', "description is missing"),
        ("count", 'description = 3\ncommand = ["wc"]', "description must be"),
        ("count", 'description = "Count"', "command must be a list"),
        ("count", 'description = "Count"\ncommand = "wc -l"', "command must be a list"),
        ("count", 'description = "Count"\ncommand = []', "command must be a list"),
        ("count", 'description = "Count"\ncommand = ["wc", "a\\nb"]', "command must be a list"),
        ("count", GOOD + "timeout = 3", "timeout is not a known field"),
        ("count", GOOD + "parameters = 3", "parameters must be a table"),
        ("count", GOOD + 'parameters.path = "string"', "parameters.path must be a table"),
        ("count", GOOD + 'parameters.path.type = "file"', "parameters.path.type must be one of"),
        ("count", GOOD + "parameters.path.required = 1", "parameters.path.required must be"),
        (
            "count",
            GOOD + 'parameters.path.enum = ["a"]',
            "parameters.path.enum is not a known field",
        ),
        (
            "count",
            GOOD + 'parameters."a b".type = "string"',
            "the parameter 'a b' may contain only",
        ),
    ],
)
def test_a_bad_file_gives_a_one_sentence_error(name: str, text: str, wrong: str):
    with pytest.raises(ValueError, match=re.escape(wrong)):
        tool_definition(name, text)


def test_no_built_in_tool_can_be_shadowed():
    sources = Path(rookery.__file__).parent.rglob("*.py")
    names = re.compile(r'^    name: ClassVar\[str\] = "(\w+)"', re.MULTILINE)
    built_in = {name for file in sources for name in names.findall(file.read_text("utf-8"))}
    assert "execute_command" in built_in
    assert built_in - reserved() == {"submit_review"}  # a review has no custom tools
