"""Misspelled fields are named, with the nearest that is known."""

from msgspec import Struct

from rookery.core.commands import (
    misspelled_field,
    repeated_field,
    unknown_field,
    unknown_field_within,
)
from support.each_row import each_row


class Inner(Struct, frozen=True, kw_only=True):
    path: str = ""


class Outer(Struct, frozen=True, kw_only=True):
    name: str
    parts: tuple[Inner, ...] = ()
    inner: Inner | None = None


@each_row(
    ("given", "clause"),
    [
        (["name", "parts"], ""),
        (["auto_aprove"], "has no field 'auto_aprove'; did you mean 'auto_approve'?"),
        (["AUTO_APPROVE"], "has no field 'AUTO_APPROVE'; did you mean 'auto_approve'?"),
        (["zzz"], "has no field 'zzz'; it has name, parts, auto_approve."),
        (["z" * 100], f"has no field '{'z' * 60}…'; it has name, parts, auto_approve."),
    ],
)
def test_an_unknown_field_is_named(given: list[str], clause: str):
    assert unknown_field(given, ("name", "parts", "auto_approve")) == clause


@each_row(
    ("given", "named"),
    [
        ({"kind": "outer", "name": "a", "parts": [{"path": "b"}]}, ""),
        ({"name": "a", "prts": []}, "prts"),
        ({"name": "a", "parts": [{"path": "b"}, {"pth": "b"}]}, "pth"),
        ({"name": "a", "inner": {"pathh": "b"}}, "pathh"),
    ],
)
def test_a_nested_unknown_field_is_found(given: dict[str, object], named: str):
    read = Outer(name="a", parts=(Inner(path="b"), Inner()), inner=Inner())
    clause = unknown_field_within(given, read)
    assert (named in clause) if named else not clause


@each_row(
    ("given", "meant"),
    [("disabld", "disabled"), ("disabledTool", "disabledTools"), ("enabledTools", ""), ("x", "")],
)
def test_only_near_misses_are_reported_in_foreign_formats(given: str, meant: str):
    clause = misspelled_field([given], ["disabled", "disabledTools", "timeout"])
    assert clause == (f"has no field {given!r}; did you mean {meant!r}?" if meant else "")


@each_row(
    ("text", "named"),
    [
        ('{"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]}', ""),
        ('{"auto_approve": false, "auto_approve": true}', "auto_approve"),
        ('{"a": 1, "\\u0061": 1}', "a"),
        ('{"b": [{"a": {"old": 1, "old": 2}}]}', "old"),
        ("{", ""),
        (b"\xff", ""),
        ("[" * 100_000, ""),
    ],
)
def test_a_duplicate_field_is_named(text: str | bytes, named: str):
    assert repeated_field(text) == (f"has the field {named!r} twice." if named else "")
