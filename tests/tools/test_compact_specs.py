import json

import pytest

from rookery.core.tool_traits import traits_of
from rookery.engine.ports.model import ToolSpec
from rookery.tools.registry import all_tools, compact_spec, essential_specs, offered

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
