"""Which files of a project matter for a task, which of them may change, and renames that need no
model."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from rookery.guided.checks import commands_in, is_check, is_test, without_commands
from rookery.guided.code_text import Section, mentions, names, section_text, sections
from rookery.guided.record import Record

SMALL_PROJECT = 12
"""Projects with at most this many files are read whole."""
MOST_READ = 8
LARGE_FILE = 4_000
"""Characters above which only a section of a file is rewritten: a small model would take minutes
to repeat it all, and would lose some of it."""
MOST_PLACES = 40
AT_THE_END = "new code at the end"

_TEXT = re.compile(
    r"\.(?:bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|env|go|h|hpp|html|ini|java|js|json|jsx|kt|log|lua|md|mjs"
    r"|php|pl|properties|py|rb|rs|rst|scss|sh|sql|svg|swift|toml|ts|tsx|txt|vue|xml|ya?ml)"
)
_LOCKS = re.compile(r"(?:^|/)(?:package-lock\.json|yarn\.lock|uv\.lock|poetry\.lock|.*\.min\.js)$")
_PATH = re.compile(r"(?<![\w./-])@?((?:[\w.-]+/)*[\w-][\w.-]*\.\w{1,6})\b")
_IDENTIFIER = re.compile(
    r"`([^`\n]{2,60})`|\b([A-Za-z]\w*_\w+|[a-z]+[A-Z]\w+|[A-Z]\w+[A-Z]\w*|[A-Za-z_]\w+(?=\())"
)
_FORBIDS = re.compile(
    r"(?:do not|don't|dont|never|without|must not|should not)\s+(?:\w+ ){0,3}?"
    r"(?:chang|touch|edit|modif|alter)\w*((?:[^.;\n]|\.\w)*)",
    re.IGNORECASE,
)
_CREATES = re.compile(
    r"\b(?:create|new|write|add|make|save|put|output|generate|into|to|as|called|named|need|script|"
    r"file|module)\b",
    re.IGNORECASE,
)
_DELETES = re.compile(
    r"\b(?:delete|remove) (?:the )?(?:file )?`?((?:[\w.-]+/)*[\w-][\w.-]*\.\w{1,6})\b",
    re.IGNORECASE,
)
_ABOUT_TESTS = re.compile(r"\b(?:add|write|create|extend|cover)\b[^.\n]*\btests?\b", re.IGNORECASE)

_NAME = r"`?([A-Za-z_$][\w$]*)(?:\(\))?`?(?![\w/]|\.\w)"
_FILE = r"`?((?:[\w.-]+/)*[\w-]+\.\w{1,6})`?"
_THING = r"(?:function|method|class|variable|constant|type|module|file)"
_RENAME = re.compile(rf"\brename (?:the )?(?:{_THING} )?{_NAME} to {_NAME}", re.I)
_CALLED = re.compile(rf"\b{_THING} {_NAME} (?:should|must) be (?:called|named) {_NAME}", re.I)
_MOVE = re.compile(
    rf"\b(?:rename|move) (?:the )?(?:{_THING} )?{_FILE} (?:to|into|as) {_FILE}", re.I
)
_CODE = re.compile(r"\.(?:[cm]?[jt]sx?|py|go|rs|java|rb|php|c|h|cpp|hpp|cs|kt|swift|lua|vue|md)")
_LOADS = re.compile(r"\b(?:import|require|from|include|use)\b")


class EditPlace(Struct, frozen=True):
    """Where the model may write: a whole file, a section of a large one, or the end of it."""

    path: str
    section: Section | None = None
    at_the_end: bool = False

    @property
    def name(self) -> str:
        if self.at_the_end:
            return f"{self.path}: {AT_THE_END}"
        return f"{self.path}: {self.section.heading}" if self.section else self.path

    @property
    def is_whole(self) -> bool:
        return self.section is None and not self.at_the_end


def identifiers(task: str) -> list[str]:
    """Names from the code that the task mentions."""
    found = (quoted or name for quoted, name in _IDENTIFIER.findall(task))
    words = (re.findall(r"[A-Za-z_]\w{2,}", each) for each in found)
    return list(dict.fromkeys(word for each in words for word in each))[:8]


def named_paths(task: str, paths: Iterable[str]) -> list[str]:
    """The project's files that the task names, by path or by file name."""
    said = {each.removeprefix("./") for each in _PATH.findall(without_commands(task))}
    return [path for path in paths if path in said or PurePosixPath(path).name in said]


def new_paths(task: str, paths: Sequence[str]) -> list[str]:
    """Files that the task wants and the project does not have."""
    known = {*paths, *(PurePosixPath(path).name for path in paths)}
    found = []
    text = without_commands(task)
    for match in _PATH.finditer(text):
        path = match[1].removeprefix("./")
        before = text[max(match.start() - 60, 0) : match.start()]
        usable = _TEXT.fullmatch(PurePosixPath(path).suffix) and not path.startswith(("/", ".."))
        if path not in known and usable and _CREATES.search(before):
            found.append(path)
    return list(dict.fromkeys(found))[:3]


def deleted_paths(task: str, paths: Iterable[str]) -> list[str]:
    """The project's files that the task wants deleted."""
    said = {match[1].removeprefix("./") for match in _DELETES.finditer(task)}
    return [path for path in paths if path in said]


def readable(paths: Iterable[str]) -> list[str]:
    return [
        path
        for path in paths
        if (_TEXT.fullmatch(PurePosixPath(path).suffix) or "." not in PurePosixPath(path).name)
        and not _LOCKS.search(path)
    ]


def files_to_read(record: Record) -> list[str]:
    """The files that matter most for the task: all of a small project."""
    paths = readable(record.paths)
    if len(paths) <= SMALL_PROJECT:
        return paths
    wanted = set(identifiers(record.task))
    named = named_paths(record.task, paths)
    output = "\n".join(run.output for run in record.runs)

    def score(path: str) -> int:
        stem = PurePosixPath(path).stem
        points = 100 * (path in named) + 40 * (path in output) + 20 * (stem in wanted)
        points += 10 * (stem.lower() in record.task.lower())
        return points + min(record.hits.get(path, 0), 9) * 3 - 5 * is_test(path)

    best = sorted(paths, key=lambda path: (-score(path), len(path), path))
    return [path for path in best if score(path) > 0][:MOST_READ] or best[:MOST_READ]


def may_change(path: str, task: str) -> bool:
    """False for files that the task forbids or checks with, and for tests unless it is about
    them."""
    name = PurePosixPath(path).name
    alone = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    in_commands = any(alone.search(command) for command in commands_in(task))
    elsewhere = bool(alone.search(without_commands(task)))
    if is_check(path) and in_commands and not elsewhere:
        return False
    for said in _FORBIDS.findall(task):
        if alone.search(said) or (is_test(path) and re.search(r"\btests?\b", said, re.IGNORECASE)):
            return False
    return not is_test(path) or elsewhere or bool(_ABOUT_TESTS.search(task))


def places(
    task: str, files: Mapping[str, str], paths: Sequence[str], *, all_files: bool = False
) -> list[EditPlace]:
    """Where the model may write, likeliest first. Unless `all_files`, only what the task names, if
    it names any."""
    new = new_paths(task, paths)
    gone = deleted_paths(task, paths)
    old = [path for path in files if may_change(path, task) and path not in gone]
    named = named_paths(task, old)
    if new:
        named = [path for path in named if _is_changed_too(path, task)]
    rest = [path for path in old if path not in named]
    rest.sort(key=lambda path: -mentions(" ".join(names(path, files[path])), identifiers(task)))
    if new or (named and not all_files):
        rest = []
    found = [EditPlace(path) for path in new]
    for path in [*named, *rest]:
        found += _places_in(path, files[path], identifiers(task))
    return found[:MOST_PLACES]


def _is_changed_too(path: str, task: str) -> bool:
    """Whether a task that asks for a new file also wants this one changed."""
    name = re.escape(PurePosixPath(path).name)
    verbs = r"(?:import|use|using|update|change|call|load|edit|add|move|replace|adapt)\w*"
    return bool(re.search(rf"\b{verbs}\b[^.\n]{{0,60}}\b{name}", task, re.IGNORECASE))


def _places_in(path: str, text: str, wanted: Sequence[str]) -> list[EditPlace]:
    parts = sections(text) if len(text) > LARGE_FILE else []
    if len(parts) < 2:
        return [EditPlace(path)]
    unique = {part.heading: part for part in parts}.values()
    likely = sorted(unique, key=lambda part: -mentions(section_text(text, part), wanted))
    return [*(EditPlace(path, part) for part in likely), EditPlace(path, at_the_end=True)]


class Rename(Struct, frozen=True):
    old: str
    new: str
    is_file: bool


def rename_in(task: str) -> Rename | None:
    """The rename that a task asks for, if that is what it asks for."""
    if found := _MOVE.search(task):
        return Rename(found[1], found[2], is_file=True)
    found = _RENAME.search(task) or _CALLED.search(task)
    return Rename(found[1], found[2], is_file=False) if found else None


def renamed(rename: Rename, files: Mapping[str, str]) -> dict[str, str | None]:
    """The files that change; None stands for a file that is gone. Empty if the old name is not
    there or the new one is taken."""
    if rename.is_file:
        return _file_renamed(rename, files)
    code = {
        path: text for path, text in files.items() if _CODE.fullmatch(PurePosixPath(path).suffix)
    }
    if any(_word(rename.new).search(text) for text in code.values()):
        return {}
    changed = {path: _replaced(text, rename.old, rename.new) for path, text in code.items()}
    return {path: text for path, text in changed.items() if text != code[path]}


def _file_renamed(rename: Rename, files: Mapping[str, str]) -> dict[str, str | None]:
    before, after = PurePosixPath(rename.old), PurePosixPath(rename.new)
    if rename.old not in files or rename.new in files:
        return {}
    changed: dict[str, str | None] = {rename.new: files[rename.old], rename.old: None}
    if before.parent != after.parent:
        return changed  # what relative imports become then is for the model
    for path, text in files.items():
        lines = text.split("\n")
        new = [
            _replaced(line, before.stem, after.stem) if _LOADS.search(line) else line
            for line in lines
        ]
        if path != rename.old and new != lines:
            changed[path] = "\n".join(new)
    return changed


def _replaced(text: str, old: str, new: str) -> str:
    return _word(old).sub(lambda _: new, text)


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
