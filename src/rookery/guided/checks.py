"""The checks of a task: commands and examples that its text names, or the project's tests."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from shlex import quote

from rookery.guided.code_text import names

MOST_CHECKS = 3
_COMMAND = re.compile(
    r"`((?:python3?|pytest|node|npm|npx|make|sh|bash|go|cargo|ruby|deno|bun)\s[^`\n]+)`"
)
_NOT_TO_RUN = re.compile(
    r"\b(?:not|don['’]t|dont|never|without|avoid)\s+(?:ever\s+|just\s+)?"
    r"(?:run|runn|call|execut|us|start|try|invok)(?:e|ing)?\s+$",
    re.IGNORECASE,
)
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\(")
_EQUALS = re.compile(r"`?\s*(?:===?|=>|->|→)\s*`?")
_SHOULD = re.compile(
    r"(?:[^\n()]{0,100}?)\b(?:should|must) (?:return|give|be|equal|become)(?: to)?\s+`?"
)
_DOES = re.compile(r"`?\s*(?:returns?|gives?|equals?|is)\s+`?")
_WRONG_TRUTH = re.compile(
    r"`?\s*(?:returns?|gives?|is)\s+`?(True|False|true|false)"
    r"`?[,.;]?\s+(?:but|although|instead|which is wrong)\b"
)
_OPPOSITES = {"True": "False", "False": "True", "true": "false", "false": "true"}
_BARE = re.compile(r"[\w][\w:./-]*\w|\w")
_EXPRESSION = re.compile(r"\bnew [A-Z]\w*\([\d, .\"'-]*\)")
_PRINTS = re.compile(
    r"`\s+(?:should |must )?(?:still |then |now )?prints? `?([^`\n]+?)`?(?:\.?$|\. |\n)"
)
_COMPLAINT = re.compile(r"\b(?:instead|but|rather|wrong|nothing)\b")
_OWN_CHECK = re.compile(
    r"\bgot = (.+?);?\n.*?got\)?(?: ==|,) (.+?)(?:, got'$|\)\) return;)", re.DOTALL
)
_PLAIN_PATH = re.compile(r"[\w./-]+")
"""Other names of files do not get into a program: they could be read as code."""
LONGEST_VALUE = 120
_UNUSABLE = re.compile(
    r"command not found|No module named (?:pytest|tox|nox)|Missing script|npm error|ENOENT"
    r"|Ran 0 tests|NO TESTS RAN"
)
_LAST_WORDS = 160


def check_commands(task: str, files: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """The commands that decide whether the task is done, best first."""
    return (commands_in(task) or list(_test_commands(files, paths)))[:MOST_CHECKS]


def commands_in(task: str) -> list[str]:
    """The commands that a task names, except those that it forbids."""
    found = (match for match in _COMMAND.finditer(task) if not _is_forbidden(task, match.start()))
    return list(dict.fromkeys(match[1] for match in found))


def _is_forbidden(task: str, start: int) -> bool:
    return bool(_NOT_TO_RUN.search(task[max(start - 40, 0) : start]))


def without_commands(task: str) -> str:
    return _COMMAND.sub("", task)


def _test_commands(files: Mapping[str, str], paths: Sequence[str]) -> Iterator[str]:
    python = [path for path in paths if _is_python_test(path)]
    texts = [files[path] for path in python if path in files]
    if python:
        uses_unittest = any("unittest" in text for text in texts) or not texts
        yield "python3 -m unittest -q" if uses_unittest else "python3 -m pytest -q"
    if script := _npm_test(files.get("package.json", "")):
        yield script
    elif "test.js" in paths:
        yield "node test.js"
    elif any(re.search(r"\.test\.[cm]?js$", path) for path in paths):
        yield "node --test"


def is_test(path: str) -> bool:
    name = PurePosixPath(path).name
    return _is_python_test(path) or bool(re.search(r"(?:^test|\.test|\.spec)\.[cm]?[jt]s$", name))


def _is_python_test(path: str) -> bool:
    return bool(re.fullmatch(r"test_\w+\.py|\w+_test\.py|tests?\.py", PurePosixPath(path).name))


def _npm_test(text: str) -> str:
    try:
        script = json.loads(text)["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return "" if "no test specified" in str(script) else "npm test --silent"


def expected_output(task: str, command: str) -> str:
    """What the task says that a command should print; empty if it does not say."""
    at = task.find(f"`{command}`")
    found = _PRINTS.match(task, at + len(command) + 1) if at >= 0 else None
    return "" if found is None or _COMPLAINT.search(found[1]) else found[1].strip()


def example_checks(
    task: str, files: Mapping[str, str], before: Mapping[str, str] | None = None
) -> list[str]:
    """Examples of the task, such as `f(3) == 9`, as commands that fail if they do not hold. What
    a function that was there `before` "returns" may be the complaint, so that is no example."""
    old = {name for path, text in (before or files).items() for name in names(path, text)}
    found = []
    for match in _CALL.finditer(task):
        name = match[1]
        home = next((path for path, text in files.items() if name in names(path, text)), "")
        end = _closing(task, match.end() - 1)
        arguments = task[match.end() : end]
        if not home or end < 0 or _literals(_EXPRESSION.sub("0", arguments)) is None:
            continue
        if value := _value(task, end + 1, is_new=name not in old):
            found.append(_example(home, name, f"{name}({arguments})", *value))
    return list(dict.fromkeys(filter(None, found)))[:MOST_CHECKS]


def _closing(text: str, opening: int) -> int:
    """Where the bracket at `opening` is closed, on the same line; -1 if it is not."""
    depth = 0
    for position in range(opening, min(len(text), opening + LONGEST_VALUE)):
        depth += {"(": 1, ")": -1, "\n": -99}.get(text[position], 0)
        if depth <= 0:
            return position if depth == 0 else -1
    return -1


def _value(task: str, start: int, *, is_new: bool) -> tuple[str, bool] | None:
    """The value that a call should have, according to the words behind it, and whether that is
    how it looks as text."""
    said = _EQUALS.match(task, start) or _SHOULD.match(task, start)
    said = said or (_DOES.match(task, start) if is_new else None)
    if said is None:
        return _opposite(task, start)
    rest = task[said.end() :]
    if value := _literal(rest):
        return value, False
    bare = _BARE.match(rest)
    return (json.dumps(bare[0]), True) if bare and not bare[0].isalpha() else None


def _opposite(task: str, start: int) -> tuple[str, bool] | None:
    """False if the task complains of true, and the other way round."""
    complaint = _WRONG_TRUTH.match(task, start)
    return (_OPPOSITES[complaint[1]], False) if complaint else None


def _literal(text: str) -> str:
    """The longest literal value at the start of a text; empty if there is none."""
    line = text[:LONGEST_VALUE].split("\n")[0]
    for end in range(len(line), 0, -1):
        value, follows = line[:end].strip(), line[end : end + 1]
        if follows.isalnum() or follows in tuple(":_-") or value.endswith((",", ".")):
            continue
        if _literals(value) == 1:
            return value
    return ""


def _literals(text: str) -> int | None:
    """How many literals a text lists, in Python or JavaScript; None if it holds anything else."""
    plain = re.sub(r"\b(true|false|null|undefined)\b", "None", text)
    try:
        return len(ast.literal_eval(f"[{plain}]"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _example(path: str, name: str, call: str, value: str, as_text: bool) -> str:
    place = PurePosixPath(path)
    packages = (*place.parts[:-1], place.stem)
    if place.suffix == ".py" and all(part.isidentifier() for part in packages):
        got = "str(got)" if as_text else "got"
        program = (
            f"from {'.'.join(packages)} import {name}\ngot = {call}\nassert {got} == {value}, got"
        )
        return f"python3 -c {quote(program)}"
    if place.suffix in (".js", ".cjs", ".mjs") and _PLAIN_PATH.fullmatch(path):
        got = "String(got)" if as_text else "got"
        program = (
            f'import("./{path}").then(({{default: all, ...named}}) => {{\n'
            f"  const {{{name}}} = {{...all, ...named}};\n  const got = {call};\n"
            f'  const {{inspect, isDeepStrictEqual}} = require("util");\n'
            f"  if (isDeepStrictEqual({got}, {value})) return;\n"
            f'  console.error("AssertionError: " + inspect(got));\n  process.exit(1);\n}})'
        )
        return f"node -e {quote(program)}"
    return ""


def is_unusable(output: str) -> bool:
    """Whether a check failed for a reason that no edit can change."""
    return bool(_UNUSABLE.search(output))


def is_check(path: str) -> bool:
    """Whether a file is there to check others."""
    name = PurePosixPath(path).stem.lower()
    return is_test(path) or bool(re.search(r"test|check|verify|spec", name))


def failure(command: str, output: str) -> str:
    """Why a check failed, as one line for the next attempt."""
    example = _OWN_CHECK.search(command)
    if not example:
        return last_words(output)
    got = re.search(r"^AssertionError: (.*)$", output, re.MULTILINE)
    is_now = f"is {got[1][:80]}" if got else f"fails ({last_words(output)})"
    return f"{example[1]} should be {example[2]} and {is_now}."


def last_words(output: str) -> str:
    """The line of a command's output that says most."""
    lines = [line.strip() for line in output.splitlines() if line.strip(" -=.^~")]
    telling = [line for line in lines if re.match(r"\w*(?:Error|Exception|FAIL)\b", line)]
    return (telling or lines or ["it failed without a word"])[-1][:_LAST_WORDS]
