import io
from pathlib import Path

import pytest
from msgspec.structs import asdict, fields

from rookery.core import settings_sections as module
from rookery.core.limits import Limits
from rookery.core.modes import Level
from rookery.core.settings import Settings
from rookery.core.settings_reference import (
    PROJECT_MAY,
    all_settings,
    loosens,
    shown,
    variable_of,
)
from rookery.core.settings_sections import (
    CommandSettings,
    LimitSettings,
    ModelDescription,
    UiSettings,
)
from rookery.engine.ports.model import ModelInfo
from support.each_row import each_row
from support.settings_document import document

ROOT = Path(__file__).parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_settings_document_matches_the_code():
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == document(), "run: make pages"


def test_every_setting_has_a_description_and_its_values():
    for key, setting in all_settings().items():
        assert setting.sentence.endswith("."), key
        assert setting.expected, key


def test_every_limit_setting_takes_effect():
    assert Settings().as_limits() == Limits()
    low = {name: 9000 for name in LimitSettings.__struct_fields__}
    chosen = Settings(
        max_requests=7,
        max_cost=1.5,
        mistake_limit=2,
        commands=CommandSettings(timeout=9.0),
        limits=LimitSettings(**low),
    )
    own = {"requests": 7, "cost": 1.5, "mistakes": 2, "command_seconds": 9.0}
    limits = asdict(chosen.as_limits())
    assert {name: limits[name] for name in (*own, *low)} == own | low


def test_model_settings_have_the_fields_of_model_info():
    known = {field.name for field in fields(ModelInfo)}
    assert set(ModelDescription.__annotations__) == known - {"id", "provider", "base_url"}


def test_variables_are_distinct_and_not_taken():
    variables = [variable_of(key) for key in all_settings()]
    assert len(set(variables)) == len(variables)
    assert not {"ROOKERY_HOME", "ROOKERY_KILLPOINT"} & set(variables)
    assert variable_of(("ui", "colour")) == "ROOKERY_UI_COLOUR"


def test_a_project_cannot_set_where_keys_are_sent():
    reachable = {key[0] for key in PROJECT_MAY}
    assert not reachable & {"provider", "model", "base_url", "mode", "models", "ui"}


@each_row(
    ("key", "wanted", "present", "loose"),
    [
        (("max_requests",), 10, 200, False),
        (("max_requests",), 200, 200, False),
        (("max_requests",), 201, 200, True),
        (("max_requests",), 0, 200, True),
        (("max_requests",), 1_000_000, 0, False),
        (("max_requests",), 0, 0, False),
        (("max_cost",), 0.5, 0.0, False),
        (("max_cost",), 0.0, 0.5, True),
        (("mistake_limit",), 0, 3, True),
        (("commands", "timeout"), 10.0, 300.0, False),
        (("commands", "timeout"), 301.0, 300.0, True),
        (("limits", "read_bytes"), 1, 2, False),
        (("limits", "read_bytes"), 3, 2, True),
        (("approval",), "ask", "auto", False),
        (("approval",), "ask", None, False),
        (("approval",), "auto", "auto", True),
        (("sandbox", "network"), "known", "on", False),
        (("sandbox", "network"), "off", "known", False),
        (("sandbox", "network"), "known", "known", False),
        (("sandbox", "network"), "on", "known", True),
        (("sandbox", "network"), "known", "off", True),
    ],
)
def test_settings_that_loosen_are_recognized(
    key: tuple[str, ...], wanted: object, present: object, loose: bool
):
    assert loosens(key, wanted, present) is loose


@each_row(
    ("approval", "once", "level"),
    [
        (None, False, Level.ASK),
        (None, True, Level.AUTO),
        ("ask", True, Level.ASK),
        ("auto", False, Level.AUTO),
        ("plan", True, Level.PLAN),
    ],
)
def test_approval_setting_decides_the_level_of_new_sessions(
    approval: module.Approval | None, once: bool, level: Level
):
    assert Settings(approval=approval).level(once=once) is level


@each_row(
    ("colour", "out", "environ", "coloured"),
    [
        ("auto", Terminal(), {"TERM": "xterm"}, True),
        ("auto", io.StringIO(), {"TERM": "xterm"}, False),
        ("auto", Terminal(), {"NO_COLOR": "1"}, False),
        ("auto", Terminal(), {"NO_COLOR": ""}, True),
        ("auto", Terminal(), {"TERM": "dumb"}, False),
        ("always", io.StringIO(), {"NO_COLOR": "1"}, True),
        ("never", Terminal(), {}, False),
    ],
)
def test_colour_setting_decides_what_is_coloured(
    colour: module.Colour, out: io.StringIO, environ: dict[str, str], coloured: bool
):
    assert Settings(ui=UiSettings(colour=colour)).colours(out, environ) is coloured


@each_row(
    ("value", "text"),
    [
        ("plain", '"plain"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("\x1b[2J\x9b\u202e\n", '"\\u001b[2J\\u009b\\u202e\\u000a"'),
        ("\udc80", '"\\udc80"'),
        ("x" * 100, '"' + "x" * 59 + '…"'),
        (True, "true"),
        (300.0, "300"),
        (10**400, "a number so large"),
        (float("inf"), "a number so large"),
        (float("nan"), "nan"),
        ([1], "a list"),
        ({}, "a table"),
    ],
)
def test_a_shown_value_is_one_harmless_line(value: object, text: str):
    assert shown(value) == text


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Settings().mode = "ask"  # type: ignore[misc]
