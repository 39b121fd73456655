import datetime
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.core.settings import Settings
from rookery.core.settings_reference import checked, settings_from, spelled, values_in
from rookery.core.settings_sections import UiSettings
from rookery.errors import SettingsError
from rookery.storage.settings_files import (
    LARGEST_FILE,
    LONGEST_LINE,
    FoundSettings,
    find_settings,
    held_in,
    keys_of,
)


def load_settings(
    file: Path, workspace: Path | None, environ: dict[str, str], flags: dict[str, Any]
) -> Settings:
    return find_settings(file, workspace, environ, flags).settings


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".config" / "rookery" / "settings.toml"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def project_file(workspace: Path) -> Path:
    return workspace / ".rookery" / "settings.toml"


def write(file: Path, text: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def complaint_about(file: Path, text: str | bytes) -> str:
    write(file, text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file, None, {}, {})
    return str(caught.value).replace(str(file), "settings.toml")


def test_no_settings_means_all_defaults(user_file: Path, workspace: Path):
    found = find_settings(user_file, workspace, {}, {})
    assert found == FoundSettings(settings=Settings(), origins={})


def test_a_full_file_is_read(user_file: Path):
    write(
        user_file,
        """
        provider = "openrouter"
        model = "some/model"
        base_url = "http://127.0.0.1:8080/v1"
        mode = "debug"
        approval = "auto"
        max_requests = 0
        max_cost = 5
        mistake_limit = 10
        [commands]
        timeout = 60
        [ui]
        colour = "never"
        [limits]
        read_bytes = 1_000
        [models."gpt-4.1"]
        window = 100
        images = true
        input_price = 2
        """,
    )
    read = load_settings(user_file, None, {}, {})
    assert (read.provider, read.model, read.base_url) == (
        "openrouter",
        "some/model",
        "http://127.0.0.1:8080/v1",
    )
    assert (read.mode, read.approval, read.ui.colour) == ("debug", "auto", "never")
    limits = read.as_limits()
    assert (limits.requests, limits.cost, limits.mistakes) == (0, 5.0, 10)
    assert (limits.command_seconds, limits.read_bytes) == (60.0, 1000)
    assert read.models == {"gpt-4.1": {"window": 100, "images": True, "input_price": 2.0}}


@pytest.mark.parametrize("text", ["", "\ufeffmode = 'code'\n", "[ui]\n", "mode = 'code'\r\n"])
def test_valid_files_are_accepted(user_file: Path, text: str):
    write(user_file, text)
    assert load_settings(user_file, None, {}, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('modle = "x"', "no such setting: `modle`; did you mean `model`?"),
        ("Mode = 1", "no such setting: `Mode`; did you mean `mode`?"),
        ("color = 1", "no such setting: `color`; did you mean `ui.colour`?"),
        ("timeout = 1", "no such setting: `timeout`; did you mean `commands.timeout`?"),
        ("zzz = 1", "no such setting: `zzz`; remove it."),
        ("[uii]\ncolour = 1", "no such setting: `uii`; did you mean `ui`?"),
        ("[ui]\ncolor = 1", "no such setting: `ui.color`; did you mean `ui.colour`?"),
        ("[limit]\nx = 1", "no such setting: `limit`; did you mean `limits`?"),
        (
            '[models."a.b"]\nwindw = 1',
            'no such setting: `models."a.b".windw`; did you mean `models."a.b".window`?',
        ),
        ("ui = 5", "`ui` is a section; write its settings below [ui]."),
        ("[[models]]\nwindow = 1", "`models` is a section; write its settings below [models]."),
        ("models.x = 1", "`models.x` is a section; write its settings below [models.x]."),
        (
            'api_key = "sk-secret"',
            (
                "no such setting: `api_key`. Keys are stored elsewhere: remove it and "
                "run rookery auth, or set the provider's environment variable."
            ),
        ),
        ('"\\u001b[2J" = 1', 'no such setting: `"\\u001b[2J"`; remove it.'),
        (
            'max_requests = "many"',
            'max_requests must be a whole number of at least 0, not "many".',
        ),
        ("max_requests = -1", "max_requests must be a whole number of at least 0, not -1."),
        ("max_requests = 1.5", "max_requests must be a whole number of at least 0, not 1.5."),
        ("max_requests = true", "max_requests must be a whole number of at least 0, not true."),
        (
            "max_requests = 9223372036854775808",
            "max_requests must be a whole number of at least 0, not a number so large.",
        ),
        ("max_cost = nan", "max_cost must be a number of at least 0, not nan."),
        ("max_cost = inf", "max_cost must be a number of at least 0, not a number so large."),
        ("model = ''", 'model must be a non-empty text, not "".'),
        ("model = 2020-01-01", "model must be a non-empty text, not a date or time."),
        ("[model]\na = 1", "model must be a non-empty text, not a table."),
        ("model = ['x']", "model must be a non-empty text, not a list."),
        (
            "approval = 'yes'",
            'approval must be "plan", "ask", "edits", "sandboxed" or "auto", not "yes".',
        ),
        ("mode = ''", 'mode must be a non-empty text, not "".'),
        (
            "[context]\nprompt = 'short'",
            'context.prompt must be "auto", "full", "compact" or "guided", not "short".',
        ),
        ("[ui]\ncolour = true", 'ui.colour must be "auto", "always" or "never", not true.'),
        (
            "[commands]\ntimeout = 0",
            "commands.timeout must be a number from 0.1 to 86400, not 0.",
        ),
        (
            "[limits]\noutput_for_model = 8191",
            "limits.output_for_model must be a whole number from 8192 to 1073741824, not 8191.",
        ),
        (
            "[limits]\nread_bytes = 1073741825",
            "limits.read_bytes must be a whole number from 1 to 1073741824, not 1073741825.",
        ),
        (
            "[models.x]\nimages = 'yes'",
            'models.x.images must be true or false, not "yes".',
        ),
    ],
)
def test_a_mistake_in_a_file_is_named(user_file: Path, text: str, sentence: str):
    assert complaint_about(user_file, text) == f"settings.toml: {sentence}"


@pytest.mark.parametrize(
    "address",
    [
        *("localhost:8080", "ftp://host/", "https://", "https://user:hunter2@host/"),
        *("http://host/\n", "http://a b/", ""),
    ],
)
def test_a_refused_address_is_not_repeated(user_file: Path, address: str):
    said = complaint_about(user_file, f"base_url = {address!r}".replace("'", '"'))
    assert said == (
        "settings.toml: base_url must be an address that begins with http:// or https:// and "
        "holds no user name or password."
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("model = \n", "settings.toml: line 1, column 9 is not valid TOML (invalid value)."),
        (
            "mode = 'ask'\nmode = 'ask'\n",
            "settings.toml: line 2, column 13 is not valid TOML (cannot overwrite a value).",
        ),
        (
            'model = "x',
            "settings.toml: the end is not valid TOML (unterminated string).",
        ),
        (b"model = '\xff'", "settings.toml is not UTF-8 text (byte 9); save it as UTF-8."),
        ("x = " + "[" * 900, "settings.toml is nested too deeply; use at most two levels."),
        (
            "max_requests = " + "1" * (LONGEST_LINE - 15) + "1",
            "settings.toml: line 1 is longer than 1000 characters; shorten it.",
        ),
        (
            "#\n" * (LARGEST_FILE // 2) + "#",
            "settings.toml is larger than 65536 bytes; shorten it.",
        ),
    ],
)
def test_an_unparsable_file_is_refused(user_file: Path, text: str | bytes, complaint: str):
    assert complaint_about(user_file, text) == complaint


def test_a_file_and_a_line_of_the_maximum_size_are_read(user_file: Path):
    line = "#" * LONGEST_LINE + "\n"
    write(user_file, (line * 66)[: LARGEST_FILE - 1] + "\n")
    assert user_file.stat().st_size == LARGEST_FILE
    assert load_settings(user_file, None, {}, {}) == Settings()


def test_all_mistakes_are_listed_at_once(user_file: Path, project_file: Path, workspace: Path):
    write(user_file, "modle = 'x'\nmax_cost = 'much'\n[ui]\ncolour = 'red'\n")
    write(project_file, "max_requests = 'few'")
    environ = {"HOME": str(user_file.parents[2]), "ROOKERY_MISTAKE_LIMIT": "x"}
    with pytest.raises(SettingsError) as caught:
        load_settings(user_file, workspace, environ, {"max_requests": -3})
    assert str(caught.value).splitlines() == [
        "~/.config/rookery/settings.toml: no such setting: `modle`; did you mean `model`?",
        '~/.config/rookery/settings.toml: max_cost must be a number of at least 0, not "much".',
        '~/.config/rookery/settings.toml: ui.colour must be "auto", "always" or "never", '
        'not "red".',
        f'{project_file}: max_requests must be a whole number of at least 0, not "few".',
        'ROOKERY_MISTAKE_LIMIT must be a whole number of at least 0, not "x".',
        "--max-requests must be a whole number of at least 0, not -3.",
    ]


def test_a_folder_or_a_pipe_in_place_of_the_file_is_refused_without_waiting(
    user_file: Path, project_file: Path, workspace: Path
):
    user_file.mkdir(parents=True)
    project_file.parent.mkdir()
    os.mkfifo(project_file)
    with pytest.raises(SettingsError) as caught:
        load_settings(user_file, workspace, {}, {})
    assert str(caught.value).splitlines() == [
        f"{user_file} is not a regular file; move it away.",
        f"{project_file} is not a regular file; move it away.",
    ]


def test_an_unreadable_file_is_named(user_file: Path):
    write(user_file, "")
    user_file.unlink()
    user_file.symlink_to(user_file)
    with pytest.raises(SettingsError, match=r"settings\.toml cannot be read: "):
        load_settings(user_file, None, {}, {})


def test_a_project_folder_that_is_a_file_has_no_settings(user_file: Path, workspace: Path):
    write(workspace / ".rookery", "")
    assert load_settings(user_file, workspace, {}, {}) == Settings()


@pytest.mark.parametrize(
    ("user", "project", "variable", "flag", "value", "origin"),
    [
        (None, None, None, None, Settings().max_requests, "default"),
        (150, None, None, None, 150, "user"),
        (None, 100, None, None, 100, "project"),
        (150, 100, None, None, 100, "project"),
        (50, 100, None, None, 50, "user"),
        (100, 100, None, None, 100, "user"),
        (0, 100, None, None, 100, "project"),
        (150, 100, "300", None, 300, "ROOKERY_MAX_REQUESTS"),
        (150, 100, "", None, 100, "project"),
        (150, 100, "300", 400, 400, "flag"),
        (150, 100, "300", "400", 400, "flag"),
        (150, 100, "300", 0, 0, "flag"),
        (150, 100, None, 200, 200, "flag"),
    ],
)
def test_flags_variables_and_files_have_a_fixed_precedence(
    user_file: Path,
    project_file: Path,
    workspace: Path,
    user: int | None,
    project: int | None,
    variable: str | None,
    flag: object,
    value: int,
    origin: str,
):
    for file, number in ((user_file, user), (project_file, project)):
        if number is not None:
            write(file, f"max_requests = {number}")
    environ = {} if variable is None else {"ROOKERY_MAX_REQUESTS": variable}
    found = find_settings(user_file, workspace, environ, {"max_requests": flag})
    named = {"user": str(user_file), "project": str(project_file)}
    assert found.settings.max_requests == value
    assert found.origins.get(("max_requests",), "default") == named.get(origin, origin)
    assert found.refused == ()


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("ROOKERY_MODEL", "42", Settings(model="42")),
        ("ROOKERY_MODEL", "null", Settings(model="null")),
        ("ROOKERY_PROVIDER", "ollama", Settings(provider="ollama")),
        ("ROOKERY_BASE_URL", "http://localhost:1", Settings(base_url="http://localhost:1")),
        ("ROOKERY_MODE", "ask", Settings(mode="ask")),
        ("ROOKERY_APPROVAL", "auto", Settings(approval="auto")),
        ("ROOKERY_MAX_COST", "0.5", Settings(max_cost=0.5)),
        ("ROOKERY_MAX_COST", "2", Settings(max_cost=2.0)),
        ("ROOKERY_UI_COLOUR", "never", Settings(ui=UiSettings(colour="never"))),
        ("ROOKERY_HOME", "/nowhere", Settings()),
        ("ROOKERY_MODELS_<ID>_WINDOW", "1", Settings()),
    ],
)
def test_a_variable_changes_a_setting(user_file: Path, variable: str, text: str, value: Settings):
    assert load_settings(user_file, None, {variable: text}, {}) == value


@pytest.mark.parametrize(
    ("environ", "notes"),
    [
        (["ROOKERY_MODLE"], ["ROOKERY_MODLE is not a setting; did you mean ROOKERY_MODEL?"]),
        (["ROOKERY_Model"], ["ROOKERY_Model is not a setting; unset it."]),
        (["ROOKERY_HOEM"], ["ROOKERY_HOEM is not a setting; did you mean ROOKERY_HOME?"]),
        (
            ["ROOKERY_ZEBRA", "ROOKERY_COLOUR"],
            [
                "ROOKERY_COLOUR is not a setting; did you mean ROOKERY_UI_COLOUR?",
                "ROOKERY_ZEBRA is not a setting; unset it.",
            ],
        ),
        (["ROOKERY_HOME", "ROOKERY_KILLPOINT", "ROOKERY_KILLPOINT_LOG"], []),
        (["ROOKERY_FLEET_DATABASE"], []),
        (["ROOKERY_TORTURE", "ROOKERY_NOTHING_LEFT_OUT", "ROOKERY_MODEL"], []),
        (["MODLE", "ROOKERY", "XROOKERY_MODLE", "ROOKERY_\x1b[2J", "ROOKERY_MODLÉ"], []),
    ],
)
def test_an_unknown_variable_is_reported_with_a_suggestion(
    user_file: Path, environ: list[str], notes: list[str]
):
    found = find_settings(user_file, None, dict.fromkeys(environ, "x"), {})
    assert list(found.refused) == notes
    assert find_settings(user_file, None, dict.fromkeys(environ, ""), {}).refused == ()


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("ROOKERY_CONTEXT_PROMPT", "x", '"full", "compact" or "guided", not "x".'),
        (
            "ROOKERY_APPROVAL",
            "null",
            '"plan", "ask", "edits", "sandboxed" or "auto", not "null".',
        ),
        ("ROOKERY_MAX_REQUESTS", "1.5", 'whole number of at least 0, not "1.5".'),
        ("ROOKERY_MAX_COST", "nan", 'a number of at least 0, not "nan".'),
        ("ROOKERY_MAX_COST", "1" * 5000, '…".'),
        ("ROOKERY_MODE", "\udcff", 'not "\\udcff".'),
        ("ROOKERY_MODEL", "\udcff", 'not "\\udcff".'),
    ],
)
def test_a_bad_variable_is_refused(user_file: Path, variable: str, text: str, complaint: str):
    with pytest.raises(SettingsError) as caught:
        load_settings(user_file, None, {variable: text}, {})
    assert str(caught.value).startswith(f"{variable} must be ")
    assert str(caught.value).endswith(complaint)


@pytest.mark.parametrize(
    "text",
    [
        *("approval = 'ask'", "max_requests = 1", "max_cost = 0.01", "mistake_limit = 1"),
        *("[commands]\ntimeout = 299.5", "[limits]\nread_bytes = 1\nsearch_seconds = 1"),
    ],
)
def test_a_project_may_tighten_settings(
    user_file: Path, project_file: Path, workspace: Path, text: str
):
    write(project_file, text)
    found = find_settings(user_file, workspace, {}, {})
    assert found.refused == ()
    assert found.settings != Settings()
    assert set(found.origins.values()) == {str(project_file)}


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "approval = 'auto'",
            'a project can only set it to "ask", so approval = "auto" was ignored; remove it.',
        ),
        (
            f"max_requests = {Settings().max_requests + 1}",
            "a project can only lower it (0 means no limit), so max_requests = "
            f"{Settings().max_requests + 1} was ignored; remove it.",
        ),
        (
            "max_requests = 0",
            "a project can only lower it (0 means no limit), so max_requests = 0 was ignored; "
            "remove it.",
        ),
        (
            f"[commands]\ntimeout = {Settings().commands.timeout + 1:g}",
            "a project can only lower it, so commands.timeout = "
            f"{Settings().commands.timeout + 1:g} was ignored; remove it.",
        ),
        (
            "[limits]\nread_lines = 100_000",
            "a project can only lower it, so limits.read_lines = 100000 was ignored; remove it.",
        ),
        *(
            (text, f"{key} cannot be set by a project; set it in USER if you want it.")
            for text, key in [
                ("base_url = 'http://evil.example'", "base_url"),
                ("base_url = 5", "base_url"),
                ("provider = 'openai'", "provider"),
                ("model = 'dear'", "model"),
                ("mode = 'ask'", "mode"),
                ("ui.colour = 'never'", "ui.colour"),
                ("[models.x]\ninput_price = 0", "models.x.input_price"),
            ]
        ),
        (
            "api_key = 'sk-x'",
            (
                "no such setting: `api_key`. Keys are stored elsewhere: remove it and "
                "run rookery auth, or set the provider's environment variable."
            ),
        ),
        ("home = '/tmp'", "no such setting: `home`; remove it."),
        ("[mcp]\nx = 1", "no such setting: `mcp`; remove it."),
        ("limits = 1", "`limits` is a section; write its settings below [limits]."),
    ],
)
def test_settings_a_project_may_not_set_are_refused(
    user_file: Path, project_file: Path, workspace: Path, text: str, refusal: str
):
    write(project_file, text)
    found = find_settings(user_file, workspace, {}, {})
    assert found.settings == Settings()
    assert found.origins == {}
    assert found.refused == (f"{project_file}: {refusal}".replace("USER", str(user_file)),)


def test_the_users_own_file_is_not_a_projects_even_in_its_own_folder(
    workspace: Path, project_file: Path
):
    write(project_file, "model = 'mine'")
    assert load_settings(project_file, workspace, {}, {}).model == "mine"


def test_every_value_is_explained(user_file: Path, project_file: Path, workspace: Path):
    write(user_file, "model = 'm'\n[models.'a.b']\nwindow = 5\n[ui]\ncolour = 'never'")
    write(project_file, "approval = 'ask'")
    found = find_settings(user_file, workspace, {"ROOKERY_MODE": "ask"}, {"max_cost": 2})
    keys = keys_of(found)
    held = {
        spelled(key): (each.value, each.origin) for key in keys for each in [held_in(found, key)]
    }
    assert held["model"] == ("m", str(user_file))
    assert held["provider"] == (None, "default")
    assert held["approval"] == ("ask", str(project_file))
    assert held["mode"] == ("ask", "ROOKERY_MODE")
    assert held["max_cost"] == (2, "flag")
    assert held["limits.read_lines"] == (Settings().limits.read_lines, "default")
    assert list(held.items())[-1] == ('models."a.b".window', (5, str(user_file)))


KEYS = st.one_of(
    st.sampled_from(
        ["model", "mode", "ui", "colour", "limits", "read_bytes", "models", "max_cost", "window"]
    ),
    st.text(max_size=5),
)
LEAVES = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["ask", "auto", 5, 10**30, 10**400, -(10**400)]),
    st.datetimes(),
    st.dates(),
    st.times(),
    st.just(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
)
TABLES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=8,
    ),
    max_size=5,
)


@given(TABLES)
def test_any_table_gives_settings_or_an_error(table: dict[str, Any]):
    taken, said = {}, []
    for key, value in values_in(table):
        try:
            taken[key] = checked(key, value, name=spelled(key))
        except SettingsError as error:
            said.append(str(error))
    assert isinstance(settings_from(taken), Settings)
    assert all(line.isprintable() and line[-1] in ".?" for line in said)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=60),
        st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),
        st.text("[]{}.='\"model#\n 01", max_size=60).map(str.encode),
    )
)
def test_any_bytes_give_settings_or_errors(user_file: Path, workspace: Path, data: bytes):
    write(user_file, data)
    write(workspace / ".rookery" / "settings.toml", data)
    said: list[str] = []
    try:
        load_settings(user_file, workspace, {}, {})
    except SettingsError as error:
        said = str(error).split("\n")
    assert all(line.isprintable() for line in said)
