import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rookery.core.tool_traits import traits_of
from rookery.engine.ports.model import ToolSpec
from rookery.tools.registry import all_tools, compact_spec, essential_specs, offered, spec_of
from support.each_row import each_row

SOURCE = Path(__file__).parents[2] / "src"
FILE_TOOLS = ["apply_diff", "edit", "list_files", "read_file", "search_files", "write_to_file"]


def test_tools_are_found_by_their_modules():
    tools = all_tools()
    assert set(FILE_TOOLS) <= set(tools)
    assert all(tool.name == name for name, tool in tools.items())


@each_row("name", FILE_TOOLS)
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
            "path": {"type": "string", "description": "Folder or file."},
            "regex": {"type": "string", "description": "Matched line by line; no look-around."},
            "file_pattern": {
                "type": "string",
                "description": "Only these files, e.g. *.py or src/**/*.{ts,tsx}.",
            },
        },
    }


def test_tool_descriptions_fit_the_token_budget():
    specs = [spec_of(all_tools()[name]) for name in FILE_TOOLS]
    reported = [{"name": s.name, "description": s.description, "schema": s.schema} for s in specs]
    assert len(json.dumps(reported)) / 3.2 < 1200


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


SPECS = {spec.name: spec for spec in offered(all_tools())}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_tool_keeps_its_name_what_it_needs_and_the_types(spec: ToolSpec):
    compact = compact_spec(spec)
    kept = compact.schema["properties"]
    assert compact.name == spec.name
    assert spec.description.startswith(compact.description)
    assert compact.description.endswith(".")
    assert compact.schema.get("required") == spec.schema.get("required")
    skipped = traits_of(spec.name).skipped
    assert set(spec.schema["properties"]) - set(kept) == skipped & set(spec.schema["properties"])
    assert set(spec.schema.get("required", ())) <= set(kept)
    for name, argument in kept.items():
        assert argument["type"] == spec.schema["properties"][name]["type"]
        assert ("description" in argument) is (name in {"diff", "patch", "todos"})


def test_skipped_arguments_are_in_the_full_schema():
    for name, spec in SPECS.items():
        skipped = traits_of(name).skipped
        assert all(f'"{argument}"' in json.dumps(spec.schema) for argument in skipped)
    assert traits_of("execute_command").skipped == {"terminal", "cwd", "timeout"}


def test_the_original_is_not_changed():
    before = json.dumps(SPECS["read_file"].schema)
    compact_spec(SPECS["read_file"])
    assert json.dumps(SPECS["read_file"].schema) == before


def test_small_models_are_offered_few_tools():
    foreign = ToolSpec("mcp--maps--route", "Find a route.", {"type": "object", "properties": {}})
    names = [spec.name for spec in essential_specs([*SPECS.values(), foreign], also="")]
    assert names == [
        *("edit", "execute_command", "list_files", "read_file", "search_files", "write_to_file"),
        "mcp--maps--route",
    ]


def test_a_mode_without_the_usual_tools_keeps_its_own():
    specs = [SPECS["ask_followup_question"], SPECS["update_todo_list"]]
    assert [spec.name for spec in essential_specs(specs, also="")] == [s.name for s in specs]
