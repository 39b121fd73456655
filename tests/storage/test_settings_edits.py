"""One value of a settings file changes, and nothing else."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.settings_reference import Key
from rookery.errors import SettingsError
from rookery.storage.settings_edits import change_settings, with_value, without
from support.access_lists import restrict, still_restricted
from support.each_row import each_row

FILE = Path("settings.toml")
TEXT = """\
# my settings
mode   = "ask"  # I like to ask

max_requests = 5

[ui]
# nothing flashy
colour = "never"

[commands]
allow = [
  "npm test",  # quick
  "make",
]
"""


@pytest.mark.parametrize(
    ("key", "value", "before", "after"),
    [
        (("mode",), "code", 'mode   = "ask"  # I', 'mode   = "code"  # I'),
        (("max_requests",), 7, "max_requests = 5", "max_requests = 7"),
        (("ui", "colour"), "auto", 'colour = "never"', 'colour = "auto"'),
        (("ui", "oneshot"), True, 'colour = "never"\n', 'colour = "never"\noneshot = true\n'),
        (("provider",), "x", "max_requests = 5\n", 'max_requests = 5\nprovider = "x"\n'),
        (
            ("commands", "allow"),
            ("ls",),
            'allow = [\n  "npm test",  # quick\n  "make",\n]',
            'allow = [\n  "ls",\n]',
        ),
        (
            ("commands", "allow"),
            ("npm test", "ls"),
            '  "make",\n]',
            '  "ls",\n]',
        ),
        (
            ("sandbox", "use"),
            "off",
            '  "make",\n]\n',
            '  "make",\n]\n\n[sandbox]\nuse = "off"\n',
        ),
        (
            ("models", "a.b", "window"),
            9,
            '  "make",\n]\n',
            '  "make",\n]\n\n[models."a.b"]\nwindow = 9\n',
        ),
    ],
    ids=lambda each: ".".join(each) if isinstance(each, tuple) else "",
)
def test_a_value_is_set_in_its_usual_place(key: Key, value: object, before: str, after: str):
    assert before in TEXT
    assert with_value(TEXT, key, value, FILE) == TEXT.replace(before, after)


INLINE = 'ui = {colour = "x", oneshot = true}\n'
BELOW_A_TEXT = 'mode = """\n[ui]\n"""\n[ui]\ncolour = "x"\n'


@each_row(
    ("text", "key", "after"),
    [
        ("", ("mode",), 'mode = "x"\n'),
        ("", ("ui", "colour"), '[ui]\ncolour = "x"\n'),
        ("# only this", ("mode",), '# only this\nmode = "x"\n'),
        ("[ui]\n", ("mode",), 'mode = "x"\n\n[ui]\n'),
        ("[ui]", ("ui", "colour"), '[ui]\ncolour = "x"\n'),
        ('ui.colour = "a"\n', ("ui", "colour"), 'ui.colour = "x"\n'),
        ("ui.oneshot = true\n", ("ui", "colour"), 'ui.oneshot = true\nui.colour = "x"\n'),
        ('mode = "a"\r\n', ("mode",), 'mode = "x"\r\n'),
        ('mode = "a # b" # c\n', ("mode",), 'mode = "x" # c\n'),
        ('mode = "a"\r\n', ("ui", "colour"), 'mode = "a"\r\n\r\n[ui]\r\ncolour = "x"\r\n'),
        ('ui = {colour = "a", oneshot = true}\n', ("ui", "colour"), INLINE),
        ('mode = """\n[ui]\n"""\n[ui]\n', ("ui", "colour"), BELOW_A_TEXT),
        ('[models."a=b"]\nwindow = 1\n', ("mode",), 'mode = "x"\n\n[models."a=b"]\nwindow = 1\n'),
    ],
)
def test_files_are_written_in_many_ways(text: str, key: Key, after: str):
    assert with_value(text, key, "x", FILE) == after


@pytest.mark.parametrize(
    ("key", "gone"),
    [
        (("mode",), 'mode   = "ask"  # I like to ask\n'),
        (("ui", "colour"), 'colour = "never"\n'),
        (("commands", "allow"), 'allow = [\n  "npm test",  # quick\n  "make",\n]\n'),
        (("provider",), ""),
    ],
    ids=lambda each: ".".join(each) if isinstance(each, tuple) else "",
)
def test_a_value_is_removed_with_its_line(key: Key, gone: str):
    assert without(TEXT, key, FILE) == TEXT.replace(gone, "")


def test_comments_in_a_list_stay_unless_they_follow_a_removed_entry():
    text = '[commands]\nallow = [  # mine\n  "a # b",\n  # the tests\n  "c", # d\n]\n'
    after = '[commands]\nallow = [  # mine\n  # the tests\n  "e",\n]\n'
    assert with_value(text, ("commands", "allow"), ("e",), FILE) == after


def test_a_file_that_cannot_be_edited_safely_is_left_to_the_user():
    with pytest.raises(SettingsError, match="only you can change: rookery config edit"):
        with_value("ui = 5\n", ("ui", "colour"), "x", FILE)


def test_an_invalid_file_is_not_changed():
    with pytest.raises(SettingsError, match="not valid TOML"):
        with_value("mode = \n", ("mode",), "x", FILE)


KEYS: list[Key] = [("mode",), ("ui", "colour"), ("commands", "allow"), ("models", "a b", "window")]
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=3).map(tuple),
)


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=6))
def test_random_edits_are_stored_and_keep_comments(
    edits: list[tuple[Key, object]],
):
    text = TEXT
    for key, value in edits:
        text = with_value(text, key, value, FILE)
        said: object = tomllib.loads(text)
        for name in key:
            assert isinstance(said, dict)
            said = said[name]
        assert said == (list(value) if isinstance(value, tuple) else value)
    for key, _ in edits:
        text = without(text, key, FILE)
    assert "# my settings\n" in text
    assert "# nothing flashy\n" in text
    assert tomllib.loads(text)["max_requests"] == 5


class TestWriting:
    def test_a_user_file_is_private_and_a_link_to_it_is_kept(self, tmp_path: Path):
        (tmp_path / "dotfiles").mkdir()
        real, link = tmp_path / "dotfiles" / "s.toml", tmp_path / "config" / "settings.toml"
        link.parent.mkdir()
        link.symlink_to(real)
        change_settings(link, lambda _: "mode = 'x'\n", shared=False)
        assert link.is_symlink()
        assert real.read_text() == "mode = 'x'\n"
        assert real.stat().st_mode & 0o777 == 0o600

    def test_file_permissions_are_kept(self, tmp_path: Path):
        file = tmp_path / "settings.toml"
        file.write_text("")
        file.chmod(0o640)
        change_settings(file, lambda _: "x\n", shared=False)
        assert file.stat().st_mode & 0o777 == 0o640
        restrict(file)
        change_settings(file, lambda _: "y\n", shared=False)
        assert still_restricted(file)

    def test_links_in_a_project_are_not_followed(self, tmp_path: Path):
        victim = tmp_path / "victim"
        victim.write_text("")
        file = tmp_path / ".rookery" / "settings.toml"
        file.parent.mkdir()
        file.symlink_to(victim)
        with pytest.raises(SettingsError, match="is a symbolic link"):
            change_settings(file, lambda _: "x\n", shared=True)
        assert victim.read_text() == ""
        (tmp_path / "out").mkdir()
        (tmp_path / "linked").symlink_to(tmp_path / "out")
        with pytest.raises(SettingsError, match="is a symbolic link"):
            change_settings(tmp_path / "linked" / "settings.toml", lambda _: "x\n", shared=True)

    def test_an_edit_without_a_change_writes_nothing(self, tmp_path: Path):
        file = tmp_path / "config" / "settings.toml"
        assert not change_settings(file, lambda text: text, shared=False)
        assert not file.parent.exists()
