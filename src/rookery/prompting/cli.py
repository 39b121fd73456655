"""`rookery modes`: list modes, and export and import them in Roo Code's format.

An import never replaces anything. New modes are appended to the modes file as text, so that
comments survive; the result is written only if it parses to the old modes plus the new ones.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

import click
from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.cli.command_line import folder_option, format_option
from rookery.core.limits import KIB, Limits
from rookery.core.modes import Group, Mode, find_mode
from rookery.core.text.terminal_text import harmless, visible_line
from rookery.errors import SettingsError
from rookery.permissions.trust import TrustStore
from rookery.platform.disk import PRIVATE_FILE, put, reason
from rookery.platform.user_folders import find_places
from rookery.prompting.config_files import ConfigPlaces
from rookery.prompting.modes import FILE_NAME, FoundModes, ModeFiles, from_yaml, load_modes, to_yaml
from rookery.storage.cli.session_listing import confirmed
from rookery.storage.settings_files import find_settings
from rookery.workspace.files import WorkspaceFiles

_HERE = folder_option("The workspace folder.")
_READABLE = 0o644
LARGEST_EXPORT = 512 * KIB
_ITEM = re.compile(r"^( *)- ", re.MULTILINE)
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,100}")


class RuleFile(Struct, frozen=True, kw_only=True):
    """A rule of a mode. `path` is relative to the mode's `rules-<slug>` folder."""

    path: str
    text: str


class ModeExport(Struct, frozen=True, kw_only=True):
    """A mode with its rules, as it is exported or imported."""

    mode: Mode
    rules: tuple[RuleFile, ...] = ()


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """List modes, export them to a file, or import them from one."""
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@command.command("list")
@_HERE
@format_option
def list_command(workspace: Path, form: str) -> int:
    """List the modes and where each comes from."""
    found = _modes(workspace)
    if form == "json":
        modes = [{"slug": m.slug, "name": m.name, "source": m.source} for m in found.modes]
        print(json.dumps({"modes": modes, "problems": list(found.problems)}))
        return 0
    width = max(len(mode.slug) for mode in found.modes)
    for mode in found.modes:
        what = visible_line(mode.when_to_use or mode.name)
        print(f"{mode.slug:{width}}  {mode.source:8}  {what}")
    for problem in found.problems:
        print(visible_line(f"note: {problem}"))
    return 0


@command.command("export")
@click.argument("slugs", metavar="SLUG...", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
@_HERE
def export_command(slugs: tuple[str, ...], output: Path | None, workspace: Path) -> int:
    """Print modes with their rules, in the format that `import` and Roo Code read."""
    known = _modes(workspace).modes
    text = export_text([_export_of(slug, known, workspace) for slug in slugs])
    if output is None:
        print(harmless(text) if sys.stdout.isatty() else text, end="")
        return 0
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SettingsError(f"{output} already exists. Nothing was written.") from None
    except OSError as error:
        raise SettingsError(f"{output} could not be written: {reason(error)}.") from error
    print(harmless(f"Wrote {', '.join(slugs)} to {output}."))
    return 0


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--project", is_flag=True, help="Import into the project instead of your own modes.")
@click.option("-y", "--yes", is_flag=True, help="Import without asking.")
@_HERE
def import_command(file: Path, project: bool, yes: bool, workspace: Path) -> int:
    """Import modes from a file. They are shown first, and existing modes are not replaced."""
    found = _read(file)
    folder = workspace / PROJECT_FOLDER if project else find_places(os.environ).config
    target = folder / FILE_NAME
    text = _with_modes(target, found)
    _check_targets(folder, found, shared=project)
    for line in _describe(found):
        print(visible_line(line))
    if not yes and not confirmed(f"Add this to {target}?"):
        print("Nothing was changed.")
        return 1
    _write(folder, target, text, found, shared=project)
    print(harmless(f"Added {', '.join(each.mode.slug for each in found)} to {target}."))
    return 0


def export_text(exports: Sequence[ModeExport]) -> str:
    """Return the content of an export file."""
    return to_yaml({"customModes": [_entry(each) for each in exports]})


def parse_export(text: str) -> tuple[ModeExport, ...]:
    """Parse an export file. Raises `ValueError` if it is invalid."""
    modes = load_modes(text, "user")
    if not modes:
        raise ValueError("it defines no mode")
    entries = from_yaml(text)["customModes"]
    return tuple(
        ModeExport(mode=mode, rules=tuple(_rules_of_mode(entry, mode.slug)))
        for mode, entry in zip(modes, entries, strict=True)
    )


def append_modes(text: str, modes: Sequence[Mode]) -> str:
    """Append modes to the content of a modes file. Raises `ValueError` if that is not possible."""
    present = load_modes(text, "user")
    if both := {each.slug for each in present} & {each.slug for each in modes}:
        raise ValueError(f"the mode {sorted(both)[0]} already exists")
    entries = [_entry(ModeExport(mode=mode)) for mode in modes]
    if not present:
        new = to_yaml({"customModes": entries})
        return f"{text.rstrip()}\n{new}" if _is_only_comments(text) else new
    found = _ITEM.search(text)
    indent = found[1] if found else "  "
    more = "".join(f"{indent}{line}\n" for line in to_yaml(entries).splitlines())
    after = f"{text.rstrip()}\n{more}"
    if _parsed(after) != [*present, *_parsed(export_text([ModeExport(mode=m) for m in modes]))]:
        raise ValueError("its YAML layout cannot be edited automatically, so add the mode by hand")
    return after


def _modes(workspace: Path) -> FoundModes:
    places = find_places(os.environ)
    home = Path.home()
    files = WorkspaceFiles(workspace, Limits(), own_folders=places.own_folders, home=home)
    trusted = TrustStore(places.trust_file).trusts(workspace)
    project = workspace if trusted else None
    context = find_settings(places.settings_file, project, os.environ, {}).settings.context
    at = (places.config, home, files.boundaries)
    return ModeFiles(ConfigPlaces(*at, trusted=trusted, other_agents=context.other_agents)).read()


def _export_of(slug: str, known: Sequence[Mode], workspace: Path) -> ModeExport:
    mode = find_mode(known, slug)
    if mode is None:
        there = ", ".join(each.slug for each in known)
        raise SettingsError(f"No such mode: {slug!r}. Available: {there}.")
    if mode.source == "project":
        folders = [workspace / PROJECT_FOLDER, workspace / ".roo"]
    else:
        folders = [find_places(os.environ).config, Path.home() / ".roo"]
    return ModeExport(mode=mode, rules=tuple(_rules(folders, slug)))


def _rules(folders: Sequence[Path], slug: str) -> Iterator[RuleFile]:
    for folder in folders:
        top = folder / f"rules-{slug}"
        for file in sorted(top.rglob("*.md")) if top.is_dir() else ():
            if file.is_file() and not file.is_symlink():
                text = file.read_text(encoding="utf-8", errors="replace")
                yield RuleFile(path=file.relative_to(top).as_posix(), text=text)


def _read(file: Path) -> tuple[ModeExport, ...]:
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST_EXPORT + 1)
        if len(data) > LARGEST_EXPORT:
            raise SettingsError(f"{file} is larger than {LARGEST_EXPORT} bytes.")
        return parse_export(data.decode("utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {reason(error)}.") from error
    except ValueError as error:
        raise SettingsError(f"{file} cannot be imported: {error}. Nothing was changed.") from error


def _with_modes(target: Path, found: Sequence[ModeExport]) -> str:
    try:
        text = target.read_text(encoding="utf-8") if target.exists() else ""
        return append_modes(text, [each.mode for each in found])
    except OSError as error:
        raise SettingsError(f"{target} cannot be read: {reason(error)}.") from error
    except ValueError as error:
        wrong = f"Cannot add modes to {target}: {error}. Nothing was changed."
        raise SettingsError(wrong) from error


def _check_targets(folder: Path, found: Sequence[ModeExport], *, shared: bool) -> None:
    """Refuse to overwrite a rule file, or to write through a symlink of the project."""
    for each in found:
        for rule in each.rules:
            place = folder / f"rules-{each.mode.slug}" / rule.path
            if place.exists() or place.is_symlink():
                raise SettingsError(f"{place} already exists. Nothing was changed.")
            above = takewhile(lambda parent: parent != folder, place.parents)
            if link := next((parent for parent in above if shared and parent.is_symlink()), None):
                raise SettingsError(f"{link} is a symbolic link. Nothing was changed.")


def _describe(found: Sequence[ModeExport]) -> Iterator[str]:
    for each in found:
        mode = each.mode
        groups = ", ".join(
            f"{group.name} ({group.pattern})" if group.pattern else group.name
            for group in mode.groups
        )
        yield f"{mode.slug}: {mode.name}. It may use: {groups or 'no tools'}."
        yield f"  role: {mode.role}"
        if mode.instructions:
            yield f"  instructions: {mode.instructions}"
        for rule in each.rules:
            yield f"  rule {rule.path}: {rule.text}"
        if mode.provider or mode.model:
            yield "  Its provider and model are not imported; set them yourself."


def _write(
    folder: Path, target: Path, text: str, found: Sequence[ModeExport], *, shared: bool
) -> None:
    if target.is_symlink() or folder.is_symlink():
        raise SettingsError(f"{target} is a symbolic link. Nothing was changed.")
    try:
        for each in found:
            for rule in each.rules:
                place = folder / f"rules-{each.mode.slug}" / rule.path
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("x", encoding="utf-8") as file:
                    file.write(rule.text)
        folder.mkdir(parents=True, exist_ok=True)
        put(target, [text.encode()], mode=_READABLE if shared else PRIVATE_FILE)
    except OSError as error:
        raise SettingsError(f"{target} could not be written: {reason(error)}.") from error


def _parsed(text: str) -> list[Mode]:
    try:
        return list(load_modes(text, "user"))
    except ValueError:
        return []


def _is_only_comments(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def _entry(export: ModeExport) -> dict[str, Any]:
    mode = export.mode
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
    if export.rules:
        entry["rulesFiles"] = [
            {"relativePath": f"rules-{mode.slug}/{rule.path}", "content": rule.text}
            for rule in export.rules
        ]
    return entry


def _group(group: Group) -> str | list[Any]:
    options = {"fileRegex": group.pattern, "description": group.description}
    given = {name: text for name, text in options.items() if text}
    return [group.name, given] if given else group.name


def _rules_of_mode(entry: Mapping[str, Any], slug: str) -> Iterator[RuleFile]:
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
    """Return the path relative to the mode's rules folder. Raises `ValueError` if it leaves it."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    if parts[:1] == (f"rules-{slug}",):
        parts = parts[1:]
    if not parts or not all(_FILE_NAME.fullmatch(part) for part in parts):
        raise ValueError(f"mode {slug} has a rule with the invalid path {path!r}")
    return "/".join(parts)
