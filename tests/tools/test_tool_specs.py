import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rookery.tools.registry import all_tools, spec_of

SOURCE = Path(__file__).parents[2] / "src"
FILE_TOOLS = ["apply_diff", "edit", "list_files", "read_file", "search_files", "write_to_file"]


def test_tools_are_found_by_their_modules():
    tools = all_tools()
    assert set(FILE_TOOLS) <= set(tools)
    assert all(tool.name == name for name, tool in tools.items())


@pytest.mark.parametrize("name", FILE_TOOLS)
def test_a_schema_is_plain_and_closed(name: str):
    spec = spec_of(all_tools()[name])
    text = json.dumps(spec.schema)
    assert not any(noise in text for noise in ("$ref", '"title"', '"default"', "anyOf"))
    assert spec.schema["type"] == "object"
    assert spec.schema["additionalProperties"] is False
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"unknown": 1}, all_tools()[name].arguments)


def test_a_schema_says_what_the_arguments_are():
    assert spec_of(all_tools()["search_files"]).schema == {
        "type": "object",
        "required": ["path", "regex"],
        "additionalProperties": False,
        "properties": {
            "path": {"type": "string", "description": "Folder or file, relative to the workspace."},
            "regex": {"type": "string", "description": "Matched line by line; no look-around."},
            "file_pattern": {
                "type": "string",
                "description": "Only these files, e.g. *.py or src/**/*.{ts,tsx}.",
            },
        },
    }


def test_tool_descriptions_fit_the_token_budget():
    specs = [spec_of(all_tools()[name]) for name in FILE_TOOLS]
    told = [{"name": s.name, "description": s.description, "schema": s.schema} for s in specs]
    assert len(json.dumps(told)) / 3.2 < 1200


def test_finding_the_tools_imports_nothing_heavy():
    script = (
        "import sys, rookery.tools.registry; rookery.tools.registry.all_tools(); "
        "print({'httpx2', 'yaml', 'sqlite3', 'pathspec', 'rapidfuzz'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"
