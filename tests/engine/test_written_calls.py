"""Tool calls that a model wrote as text."""

from rookery.engine.model_turn import written_call
from support.each_row import each_row

TOOLS = ("read_file", "execute_command", "edit", "mcp--files--read")


@each_row(
    ("text", "tool"),
    [
        ("<read_file>\n<path>a.txt</path>\n</read_file>", "read_file"),
        ("I will look.\n\n<read_file>\n<path>a.txt</path>", "read_file"),
        ("Let me see: <read_file><path>a.txt</path></read_file>", "read_file"),
        ('<read_file path="a.txt"/>', "read_file"),
        ('See <read_file path="a.txt"/>', "read_file"),
        ("I do it now: <edit/>", "edit"),
        ("```xml\n<read_file><path>a</path></read_file>\n```", "read_file"),
        ('```json\n{"name": "read_file", "arguments": {"path": "a"}}\n```', "read_file"),
        ('I run it:\n```\n{"tool": "execute_command", "command": "ls"}\n```', "execute_command"),
        ('```json\n[{"name": "edit", "input": {"path": "a"}}]\n```', "edit"),
        ('```json\n{"function": "edit", "parameters": {"path": "a"', "edit"),
        ('```json\n{"function": {"name": "edit", "arguments": "{}"}}\n```', "edit"),
        ('```tool_call\n{"read_file": {"path": "a"}}\n```', "read_file"),
        ('{"name": "read_file", "arguments": {"path": "a"}}', "read_file"),
        ('Sure.\n{"name": "read_file", "arguments": {"path": "a"}}', "read_file"),
        ('<tool_call>\n{"name": "read_file", "arguments": {}}\n</tool_call>', "read_file"),
        ("<tool_call><function=read_file><parameter=path>a", "read_file"),
        ('<invoke name="mcp--files--read">', "mcp--files--read"),
    ],
)
def test_a_call_of_a_known_tool_is_found_in_text(text: str, tool: str):
    assert written_call(text, TOOLS) == tool


@each_row(
    "text",
    [
        "",
        "The answer is 4.",
        "I used read_file and then edit.",
        "Use the `<read_file>` tag for that.",
        "Call it like `read_file`; <edit> is another.",
        "<write_to_file><path>a</path></write_to_file>",
        '```json\n{"name": "edit", "version": "1.0.0"}\n```',
        '```json\n{"name": "unknown", "arguments": {}}\n```',
        "```python\ndef read_file(path): ...\n```",
        "<edited>\n<read_files>",
    ],
)
def test_text_about_tools_is_not_a_call(text: str):
    assert written_call(text, TOOLS) == ""


def test_a_long_text_full_of_openings_is_read_quickly():
    assert written_call("x <edit> ```\n" * 10_000, TOOLS) == ""
