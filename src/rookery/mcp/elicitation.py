"""Forms that an MCP server asks the user to fill in.

Each field becomes one question. An answer is checked against the field's schema, and asked for
again if it does not match. Only primitive fields exist in the protocol; anything else, and anything
too large, is an error of the server. Its patterns are ignored: the server checks them itself.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from rookery.core.limits import KIB
from rookery.mcp.results import visible, visible_line

LARGEST_SCHEMA = 32 * KIB
MOST_FIELDS = 20
MOST_CHOICES = 50
LONGEST_MESSAGE = 4 * KIB
LONGEST_LABEL = 300
LONGEST_ANSWER = 8 * KIB
DECLINE = "Do not answer this server"
SKIP = "Leave this empty"
_YES, _NO = ("yes", "y", "true"), ("no", "n", "false")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_KINDS = ("string", "number", "integer", "boolean", "array")

Value: TypeAlias = str | int | float | bool | list[str]


class FormField(Struct, frozen=True, kw_only=True):
    """One field of a form. `choices` are values with the labels to show."""

    name: str
    kind: str
    title: str
    description: str = ""
    required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    default: str = ""
    format: str = ""
    least: float = -math.inf
    most: float = math.inf
    """Bounds of a number, of the length of a text, or of the number of choices."""


def fields_of(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """The fields of a form. Raises `ValueError` with a clause if it cannot be shown."""
    try:
        size = len(msgspec.json.encode(schema))
    except (ValueError, OverflowError, RecursionError, TypeError):
        raise ValueError("its form is not valid") from None
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise ValueError("its form is not valid")
    if size > LARGEST_SCHEMA or len(properties) > MOST_FIELDS:
        raise ValueError("its form is too large")
    wanted = schema.get("required")
    required = wanted if isinstance(wanted, list) else []
    return tuple(_field(name, each, name in required) for name, each in properties.items())


def _field(name: str, schema: Any, required: bool) -> FormField:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind not in _KINDS:
        raise ValueError(f"the field {visible_line(name, 100)} of its form has an unknown type")
    choices = _choices(schema.get("items") if kind == "array" else schema)
    if kind == "array" and not choices:
        raise ValueError(f"the field {visible_line(name, 100)} of its form offers no choices")
    low, high = {
        "string": ("minLength", "maxLength"),
        "array": ("minItems", "maxItems"),
    }.get(kind, ("minimum", "maximum"))
    return FormField(
        name=name,
        kind=kind,
        title=visible_line(str(schema.get("title") or name), LONGEST_LABEL),
        description=visible_line(str(schema.get("description") or ""), LONGEST_LABEL),
        required=required,
        choices=choices,
        default=_default(schema.get("default")),
        format=str(schema.get("format") or ""),
        least=_bound(schema.get(low), -math.inf),
        most=_bound(schema.get(high), math.inf),
    )


def _choices(schema: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(schema, dict):
        return ()
    named = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(named, list):
        pairs = [(each.get("const"), each.get("title")) for each in named if isinstance(each, dict)]
    else:
        values, names = schema.get("enum"), schema.get("enumNames")
        values = values if isinstance(values, list) else []
        names = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = list(zip(values, names, strict=True))
    if len(pairs) > MOST_CHOICES:
        raise ValueError("its form is too large")
    return tuple(
        (value, visible_line(str(label or value), LONGEST_LABEL))
        for value, label in pairs
        if isinstance(value, str)
    )


def _default(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case str() | int() | float():
            return visible_line(str(value), LONGEST_LABEL)
        case _:
            return ""


def _bound(value: Any, otherwise: float) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usable else otherwise


def question_about(field: FormField, place: str) -> str:
    """The part of a question that is about one field."""
    described = f": {field.description}" if field.description else ""
    hints = [_hint(field), *([] if field.required else ["optional"])]
    return f"{place}{field.title}{described} ({', '.join(filter(None, hints))})"


def _hint(field: FormField) -> str:
    unit = {"string": " characters", "array": " of them, separated by commas"}.get(field.kind, "")
    low, high = math.isfinite(field.least), math.isfinite(field.most)
    bounds = ""
    if low and high:
        bounds = f"{field.least:g} to {field.most:g}{unit}"
    elif low or high:
        bounds = f"at {'least' if low else 'most'} {field.least if low else field.most:g}{unit}"
    names = {
        "string": "one of the choices" if field.choices else field.format or "text",
        "number": "a number",
        "integer": "a whole number",
        "boolean": "yes or no",
        "array": "" if bounds else "some of the choices, separated by commas",
    }
    return ", ".join(filter(None, [names[field.kind], bounds if not _is_choice(field) else ""]))


def _is_choice(field: FormField) -> bool:
    return field.kind == "string" and bool(field.choices)


def offered_answers(field: FormField) -> list[str]:
    labels = [label for _, label in field.choices]
    if field.kind == "boolean":
        labels = ["yes", "no"]
    if field.default and field.default not in labels and not field.choices:
        labels.append(field.default)
    return [*labels, *([] if field.required else [SKIP]), DECLINE]


def value_of(field: FormField, text: str) -> Value:
    """The value that an answer means. Raises `ValueError` with a sentence if it has none."""
    text = text.strip()
    if len(text) > LONGEST_ANSWER:
        raise ValueError("The answer is too long.")
    match field.kind:
        case "boolean":
            if text.lower() in _YES + _NO:
                return text.lower() in _YES
            raise ValueError("Answer yes or no.")
        case "number" | "integer":
            return _number(field, text)
        case "array":
            parts = [part.strip() for part in text.split(",") if part.strip()]
            chosen = list(dict.fromkeys(_chosen(field, part) for part in parts))
            _check_bounds(field, len(chosen))
            return chosen
        case _:
            return _chosen(field, text) if field.choices else _text(field, text)


def _number(field: FormField, text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("That is not a number.") from None
    if not math.isfinite(number) or (field.kind == "integer" and not number.is_integer()):
        raise ValueError("That is not a whole number.")
    _check_bounds(field, number)
    return int(text) if text.lstrip("+-").isdecimal() else number


def _text(field: FormField, text: str) -> str:
    _check_bounds(field, len(text))
    checks = {"email": _is_email, "uri": _is_uri, "date": _is_date, "date-time": _is_time}
    check = checks.get(field.format)
    if check and not check(text):
        raise ValueError(f"That is not a valid {field.format}.")
    return text


def _chosen(field: FormField, text: str) -> str:
    for value, label in field.choices:
        if text.lower() in (value.lower(), label.lower()):
            return value
    raise ValueError(f"{visible_line(text, 100)!r} is not among the choices.")


def _check_bounds(field: FormField, amount: float) -> None:
    if not field.least <= amount <= field.most:
        raise ValueError(f"The answer must be {_hint(field)}.")


def _is_email(text: str) -> bool:
    return bool(_EMAIL.fullmatch(text))


def _is_uri(text: str) -> bool:
    try:
        return bool(urlsplit(text).scheme)
    except ValueError:
        return False


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        return bool(datetime.fromisoformat(text)) and "T" in text.upper()
    except ValueError:
        return False


def form_heading(server: str, message: str) -> str:
    return f"The MCP server {server} asks: {visible(message.strip(), LONGEST_MESSAGE)}"


def places_of(fields: Sequence[FormField]) -> list[str]:
    """How far the user is, for each field."""
    many = len(fields)
    return [f"{at} of {many}. " if many > 1 else "" for at in range(1, many + 1)]
