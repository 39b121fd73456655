"""Modes as files that people hand on: the shape of Roo's export, with the rules of each mode.

Nothing that is there is ever replaced. What is added to a file of modes is written behind what
stands in it, and is taken only if the file then says both.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.modes import Group, Mode
from rookery.prompting.modes import modes_in
from rookery.prompting.yaml_text import written, yaml_value

LARGEST_EXPORT = 512 * KIB
_ITEM = re.compile(r"^( *)- ", re.MULTILINE)
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,100}")


class RuleFile(Struct, frozen=True, kw_only=True):
    """`path` is below the folder of the mode's rules."""

    path: str
    text: str


class HandedOn(Struct, frozen=True, kw_only=True):
    """A mode as it is handed on, with its rules."""

    mode: Mode
    rules: tuple[RuleFile, ...] = ()


def exported(handed_on: Sequence[HandedOn]) -> str:
    """The file to hand on."""
    return written({"customModes": [_entry(each) for each in handed_on]})


def handed_on_in(text: str) -> tuple[HandedOn, ...]:
    """The modes in somebody's file. Raises `ValueError` with what is wrong."""
    modes = modes_in(text, "user")
    if not modes:
        raise ValueError("it defines no mode")
    entries = yaml_value(text)["customModes"]
    return tuple(
        HandedOn(mode=mode, rules=tuple(_rules(entry, mode.slug)))
        for mode, entry in zip(modes, entries, strict=True)
    )


def added_to(text: str, modes: Sequence[Mode]) -> str:
    """A file of modes with more of them. Raises `ValueError` if it cannot be added to."""
    present = modes_in(text, "user")
    if both := {each.slug for each in present} & {each.slug for each in modes}:
        raise ValueError(f"the mode {sorted(both)[0]} already exists")
    entries = [_entry(HandedOn(mode=mode)) for mode in modes]
    if not present:
        new = written({"customModes": entries})
        return f"{text.rstrip()}\n{new}" if _is_only_comments(text) else new
    found = _ITEM.search(text)
    indent = found[1] if found else "  "
    more = "".join(f"{indent}{line}\n" for line in written(entries).splitlines())
    after = f"{text.rstrip()}\n{more}"
    if _as_read(after) != [*present, *_as_read(exported([HandedOn(mode=m) for m in modes]))]:
        raise ValueError("its YAML layout cannot be edited automatically, so add the mode by hand")
    return after


def _as_read(text: str) -> list[Mode]:
    try:
        return list(modes_in(text, "user"))
    except ValueError:
        return []


def _is_only_comments(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def _entry(handed_on: HandedOn) -> dict[str, Any]:
    mode = handed_on.mode
    texts = {
        "slug": mode.slug,
        "name": mode.name,
        "roleDefinition": mode.role,
        "whenToUse": mode.when_to_use,
        "description": mode.description,
        "customInstructions": mode.instructions,
    }
    entry: dict[str, Any] = {name: text for name, text in texts.items() if text}
    entry["groups"] = [_group(group) for group in mode.groups]
    if handed_on.rules:
        entry["rulesFiles"] = [
            {"relativePath": f"rules-{mode.slug}/{rule.path}", "content": rule.text}
            for rule in handed_on.rules
        ]
    return entry


def _group(group: Group) -> str | list[Any]:
    options = {"fileRegex": group.pattern, "description": group.description}
    said = {name: text for name, text in options.items() if text}
    return [group.name, said] if said else group.name


def _rules(entry: Mapping[str, Any], slug: str) -> Iterator[RuleFile]:
    listed = entry.get("rulesFiles") or []
    if not isinstance(listed, list):
        raise ValueError(f"rulesFiles of mode {slug} is not a list")
    for each in listed:
        match each:
            case {"relativePath": str(path), "content": str(text)}:
                yield RuleFile(path=_checked_path(path, slug), text=text)
            case _:
                raise ValueError(f"mode {slug} has a rule without relativePath and content")


def _checked_path(path: str, slug: str) -> str:
    """Below the mode's own folder of rules, whatever it says."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    if parts[:1] == (f"rules-{slug}",):
        parts = parts[1:]
    if not parts or not all(_FILE_NAME.fullmatch(part) for part in parts):
        raise ValueError(f"mode {slug} has a rule with the invalid path {path!r}")
    return "/".join(parts)
