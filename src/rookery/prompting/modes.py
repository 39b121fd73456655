"""Custom modes of users and projects, and the YAML they are written in.

A project's modes count only if it is trusted, and cannot choose provider or model: otherwise a
repository could decide where the user's code is sent and what it costs. A project's mode that
replaces an existing one can remove rights, never add any.

YAML files are untrusted input too. Aliases are refused, because a few lines with them can expand to
more than fits in memory.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery import PROJECT_FOLDER
from rookery.core.limits import KIB
from rookery.core.modes import (
    BUILT_IN,
    EVERYWHERE,
    GROUPS,
    Group,
    Mode,
    Source,
    find_mode,
    gains,
    merged,
)
from rookery.core.text.characters import plain_punctuation
from rookery.first_use import lazy_pattern
from rookery.prompting.config_files import (
    ConfigFolder,
    ConfigPlaces,
    ConfigScan,
    FileCache,
)

_HIDDEN = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060"))
_FENCE = "---"
_DEEPEST = 100
"""Levels of nesting that are accepted. Deeper input is slow and overflows the stack."""


def from_yaml(text: str) -> Any:
    """Parse YAML, or else JSON. Raises `ValueError` with the position of the error.

    Typographic quotes, dashes and spaces are read as the plain ones.
    """
    bare = text.translate(_HIDDEN)
    if not bare:  # usually there is no file, and importing the YAML parser is slow
        return None
    try:
        return _load_yaml(plain_punctuation(bare))
    except ValueError as error:
        for attempt in (_load_yaml, _load_json):
            try:
                return attempt(bare)
            except ValueError:
                continue
        raise error


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Split a text into front matter (between `---` lines) and body. Raises `ValueError`."""
    lines = text.translate(_HIDDEN).split("\n") if text.startswith("\ufeff") else text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return {}, text
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise ValueError(f"its front matter has no closing {_FENCE}")
    found = from_yaml("\n".join(lines[1:end]))
    if found is not None and not isinstance(found, dict):
        raise ValueError("its front matter has no keys")
    return found or {}, "\n".join(lines[end + 1 :]).strip("\n")


def to_yaml(content: Any) -> str:
    """Format plain values as YAML."""
    import yaml

    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def _load_yaml(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("it uses a YAML alias (*), which is not supported")
            if self.depth == _DEEPEST:
                raise ValueError("it is nested too deeply")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    try:
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ValueError(f"{place} is not valid YAML ({error.problem})") from error
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML ({error})") from error


def _load_json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


FILE_NAME = "modes.yaml"
ROO_FILE = ".roomodes"
LARGEST = 64 * KIB
AGENTS_FOLDER = ".claude/agents"

_SLUG = lazy_pattern(r"[A-Za-z0-9-]{1,64}")
_OBSOLETE_GROUPS = {"browser"}
"""Groups of older versions that are ignored."""


class FoundModes(Struct, frozen=True, kw_only=True):
    """All modes, the built-in ones included, and problems to show to the user."""

    modes: tuple[Mode, ...] = BUILT_IN
    problems: tuple[str, ...] = ()


class ModeFiles:
    def __init__(self, places: ConfigPlaces) -> None:
        self._places = places
        self._found = FileCache(self._read)

    def read(self) -> FoundModes:
        """Return the modes. A task reads them once: a later edit does not widen its rights."""
        return self._found.get()

    def _read(self, scan: ConfigScan) -> FoundModes:
        own = merged(BUILT_IN, _modes_of(self._places.config, FILE_NAME, scan))
        known = merged(own, self._of_other_agents(self._places.home, own, scan))
        if project := self._places.project:
            names = (ROO_FILE, f"{PROJECT_FOLDER}/{FILE_NAME}")
            of_project = merged(*(_modes_of(project, name, scan) for name in names))
            known = merged(known, [_restrict(known, mode, scan) for mode in of_project])
            known = merged(known, self._of_other_agents(project, known, scan))
        return FoundModes(modes=known, problems=tuple(scan.problems))

    def _of_other_agents(
        self, folder: ConfigFolder, known: Sequence[Mode], scan: ConfigScan
    ) -> tuple[Mode, ...]:
        """Read the agents of Claude Code. None replaces a known mode."""
        files = folder.files(AGENTS_FOLDER, scan) if self._places.other_agents else []
        if not files:
            return ()
        from rookery.prompting.other_agents import modes_of_agents

        return modes_of_agents(folder, files, known, scan)


def load_modes(text: str, source: Source) -> tuple[Mode, ...]:
    """Parse a modes file. Raises `ValueError` if it is invalid."""
    match from_yaml(text):
        case None:
            return ()
        case {"customModes": None}:
            return ()
        case {"customModes": list(entries)}:
            modes = tuple(_mode(entry, number, source) for number, entry in enumerate(entries, 1))
        case _:
            raise ValueError("it has no list customModes")
    if duplicate := _first_duplicate([mode.slug for mode in modes]):
        raise ValueError(f"there are two modes {duplicate}")
    return modes


def _modes_of(folder: ConfigFolder, name: str, scan: ConfigScan) -> tuple[Mode, ...]:
    file = folder.at(name)
    text = folder.text(file, scan, most=LARGEST)
    source: Source = "user" if folder.origin == "user" else "project"
    try:
        modes = load_modes(text, source)
    except ValueError as error:
        scan.report(f"No mode of {folder.label(file)} is used: {error}.")
        return ()
    label = folder.label(file)
    return tuple(replace(_without_model(mode, label, scan), path=label) for mode in modes)


def _without_model(mode: Mode, label: str, scan: ConfigScan) -> Mode:
    if mode.source == "user" or not (mode.provider or mode.model):
        return mode
    scan.report(
        f"{label}: a project cannot choose provider or model, so those of mode "
        f"{mode.slug} were ignored; set them in your own modes file."
    )
    return replace(mode, provider="", model="")


def _restrict(base: Sequence[Mode], mode: Mode, scan: ConfigScan) -> Mode:
    """Reduce a project's mode to the rights of the mode it replaces, if it replaces one."""
    replaced = find_mode(base, mode.slug)
    if replaced is None:
        return mode
    if replaced.source == "user":
        scan.report(f"The project's mode {mode.slug} is used here instead of yours.")
    if more := gains(replaced, mode):
        bound = {group.name: group.pattern for group in replaced.groups}
        removed = ", ".join(_removed_right(name, bound.get(name, "")) for name in more)
        scan.report(
            f"The project's mode {mode.slug} cannot allow more than yours, so this "
            f"was removed from it: {removed}."
        )
    return replace(
        mode,
        groups=tuple(kept for group in mode.groups if (kept := _restrict_group(group, replaced))),
        provider=replaced.provider,
        model=replaced.model,
    )


def _restrict_group(group: Group, replaced: Mode) -> Group | None:
    base = next((each for each in replaced.groups if each.name == group.name), None)
    if base is None:
        return group if group.name in EVERYWHERE else None
    return base if base.pattern and base.pattern != group.pattern else group


def _removed_right(name: str, pattern: str) -> str:
    return f"{name} of files that do not match {pattern}" if pattern else name


def _mode(entry: Any, number: int, source: Source) -> Mode:
    if not isinstance(entry, dict):
        raise ValueError(f"entry {number} of customModes is not a mode")
    slug = _text(entry, "slug", f"entry {number}")
    if not _SLUG.fullmatch(slug):
        raise ValueError(f"the slug {slug!r} may have letters, digits and - only, 64 at most")
    return Mode(
        slug=slug,
        name=_text(entry, "name", f"mode {slug}"),
        role=_text(entry, "roleDefinition", f"mode {slug}"),
        when_to_use=_optional(entry, "whenToUse", slug),
        description=_optional(entry, "description", slug),
        instructions=_optional(entry, "customInstructions", slug),
        groups=_groups(entry.get("groups"), slug),
        provider=_optional(entry, "provider", slug),
        model=_optional(entry, "model", slug),
        source=source,
    )


def _text(entry: dict[str, Any], key: str, where: str) -> str:
    match entry.get(key):
        case str(text) if text.strip():
            return text.strip()
        case _:
            raise ValueError(f"{where} has no {key}")


def _optional(entry: dict[str, Any], key: str, slug: str) -> str:
    match entry.get(key):
        case None:
            return ""
        case str(text):
            return text.strip()
        case _:
            raise ValueError(f"{key} of mode {slug} must be text")


def _groups(entries: Any, slug: str) -> tuple[Group, ...]:
    if not isinstance(entries, list):
        raise ValueError(f"mode {slug} has no list of groups")
    groups = [group for entry in entries if (group := _group(entry, slug))]
    if duplicate := _first_duplicate([group.name for group in groups]):
        raise ValueError(f"mode {slug} names the group {duplicate} twice")
    return tuple(groups)


def _group(entry: Any, slug: str) -> Group | None:
    match entry:
        case str(name) | [str(name)] | [str(name), None]:
            options: dict[str, Any] = {}
        case [str(name), dict(options)]:
            pass
        case _:
            raise ValueError(f"mode {slug} has a group that is neither a name nor [name, options]")
    if name in _OBSOLETE_GROUPS:
        return None
    if name not in GROUPS:
        raise ValueError(f"mode {slug} names the group {name!r}; there are {', '.join(GROUPS)}")
    pattern = _optional(options, "fileRegex", slug)
    if pattern and name != "edit":
        raise ValueError(
            f"mode {slug} has a fileRegex for the group {name}; only edit can have one"
        )
    from rookery.core.path_patterns import path_pattern

    try:
        path_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"fileRegex {pattern!r} of mode {slug} cannot be used: {error}") from error
    return Group(name, pattern, _optional(options, "description", slug))


def _first_duplicate(names: Sequence[str]) -> str:
    return next((name for at, name in enumerate(names) if name in names[:at]), "")
