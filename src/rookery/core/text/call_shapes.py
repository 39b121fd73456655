"""The shapes in which models print one tool call, each read at a known place.

A shape never guesses: text that does not fit it completely is not a call. Work is counted, so that
hostile text costs at most a fixed number of steps per character.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rookery.core.text.literals import NoValue, read_arguments_in_brackets, read_value, read_whole
from rookery.core.tool_traits import COMMAND, PATHS, closest
from rookery.first_use import lazy_pattern

Tools: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The schema of the arguments of every tool, by name."""

WHOLE_FILE = ("content", "file_text")
"""Arguments that hold a whole file: the end of its last line belongs to it."""
WORK, STEP = 12, 20
"""Work allowed for each character, and the cost of one step compared with searching one
character."""
_NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action")
_INPUT_KEYS = ("arguments", "args", "parameters", "params", "input", "tool_input", "action_input")
_BESIDE = {"id", "type", "call_id", "thought", "thoughts", "reasoning", "explanation"}
_AROUND = "args|arguments|parameters|params"
_ATTRIBUTES = lazy_pattern(r"""((?:\s++[\w-]++\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'))*+)\s*+(/?)>""")
_ATTRIBUTE = lazy_pattern(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_CHILD = lazy_pattern(r"\s*+<([A-Za-z_][\w.-]*+)(?:\s[^<>]*+)?>")
_AROUND_TAG = lazy_pattern(rf"\s*+</?(?:{_AROUND})>")
_EQUALS_CHILD = lazy_pattern(r"\s*+<parameter=([\w.-]+)>")
_CDATA = lazy_pattern(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_SUGGESTION = lazy_pattern(r"<suggest(?:\s[^<>]*)?>([^<]*)</suggest>")
_NAMED = lazy_pattern(
    r"(?:function<｜tool▁sep｜>)?(?:functions\.|default_api\.|call:)?([A-Za-z_][\w-]*+)(?::\d+)?"
    r"\s*+(?:\[CALL_ID\][\w-]*+)?(?:\[ARGS\]|<\|tool_call_argument_begin\|>|<｜tool▁sep｜>)?"
    r"(?:<\|constrain\|>\s*+json)?(?:<\|message\|>)?\s*+(?:```(?:json)?\s*+)?"
    r"(?=\{|<arg_key>|\(|\.call\()"
)
_PAIR = lazy_pattern(r"\s*+<arg_key>([^<]*+)</arg_key>\s*+<arg_value>")
_FENCE_WITHIN = lazy_pattern(r"\s*+(?:```\w*+)?\s*+")
_BETWEEN = lazy_pattern(r"\s*+[;,]?\s*+(?=[{\[])")


_SPACE = lazy_pattern(r"\s*+")


class WrittenCall(Struct, frozen=True):
    name: str
    arguments: Mapping[str, Any]


class TooMuchWork(Exception):
    """The text costs more steps than it is worth."""


class ScannedText:
    """A text that may contain calls, with the tools that are known and the work that is left."""

    def __init__(self, text: str, tools: Tools, *, whole: bool) -> None:
        self.text = text
        self.tools = tools
        self.whole = whole
        self._left = WORK * len(text) + 50_000
        self._places: dict[str, tuple[int, int]] = {}

    def spend(self, steps: int) -> None:
        self._left -= steps + STEP
        if self._left < 0:
            raise TooMuchWork

    def find(self, mark: str, start: int) -> int:
        """Like `str.find`; remembers the last place, so it searches once for a missing mark."""
        begin, place = self._places.get(mark, (0, -2))
        if place == -2 or start < begin or (place != -1 and place < start):
            place = self.text.find(mark, start)
            self.spend((len(self.text) if place < 0 else place) - start)
            self._places[mark] = start, place
        self.spend(0)
        return place

    def value(self, start: int, end: int | None = None) -> tuple[Any, int]:
        """The value at `start`; if it ends with the text or at `end`, brackets may be missing."""
        try:
            value, reached = read_value(self.text, start)
        except NoValue as error:
            self.spend(STEP * (error.reached - start) // 2)
            missing = error.reached >= len(self.text) if end is None else error.reached == end
            if not missing or (end is None and not self.whole):
                raise
            value, reached = read_value(self.text, start, end, closing=True)
        self.spend(reached - start)
        return value, reached


def in_json(value: Any, tools: Tools, *, marked: bool = False) -> list[WrittenCall]:
    """The calls that a JSON value stands for; empty if any part of it is something else. `marked`:
    the model said that this is a call."""
    if isinstance(value, list):
        found = [in_json(each, tools, marked=marked) for each in value]
        return [call for calls in found for call in calls] if all(found) else []
    if not isinstance(value, dict):
        return []
    if set(value) - _BESIDE == {"tool_calls"}:
        return in_json(value["tool_calls"], tools, marked=True)
    call = _object_call(value, tools, marked)
    return [call] if call else []


def _object_call(value: dict[str, Any], tools: Tools, marked: bool) -> WrittenCall | None:
    if isinstance(value.get("function"), dict) and set(value) - _BESIDE == {"function"}:
        return _object_call(value["function"], tools, marked)
    key = next((key for key in _NAME_KEYS if isinstance(value.get(key), str)), "")
    name = known_name(value[key], tools, marked=marked) if key else ""
    if name:
        return _named_call(name, key, value, tools[name], marked)
    if len(value) == 1 and (only := next(iter(value))) in tools and isinstance(value[only], dict):
        return WrittenCall(only, value[only])
    return None


def _named_call(
    name: str, key: str, value: dict[str, Any], schema: Mapping[str, Any], marked: bool
) -> WrittenCall | None:
    others = {field: each for field, each in value.items() if field not in ({key} | _BESIDE)}
    if len(others) == 1 and (field := next(iter(others))) in _INPUT_KEYS:
        arguments = _as_table(others[field])
        return WrittenCall(name, arguments) if arguments is not None else None
    fits = set(others) <= set(properties(schema)) and set(schema.get("required", ())) <= set(others)
    if fits and (others or marked or key.startswith("tool")):
        return WrittenCall(name, others)
    return None


def _as_table(value: Any) -> dict[str, Any] | None:
    """Arguments are an object; some models print it as a string."""
    if isinstance(value, str):
        try:
            value = read_whole(value) if value.strip() else {}
        except NoValue:
            return None
    return value if isinstance(value, dict) else ({} if value is None else None)


def known_name(name: str, tools: Tools, *, marked: bool) -> str:
    """The tool of this name; near misses count only where the model said that this is a call."""
    name = name.strip()
    return name if name in tools else (closest(name, tools) if marked else "")


def properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def marked_calls(source: ScannedText, start: int) -> tuple[list[WrittenCall], int] | None:
    """The calls after a marker such as `<tool_call>`, in JSON or as a name and its arguments."""
    opened = _FENCE_WITHIN.match(source.text, start)
    at = opened.end() if opened else start
    if source.text.startswith(("{", "["), at):
        return _values(source, at)
    named = _NAMED.match(source.text, at)
    name = known_name(named[1], source.tools, marked=True) if named else ""
    if not (named and name):
        return None
    schema = source.tools[name]
    behind = source.text[named.end() : named.end() + 6]
    if behind.startswith("{"):
        value, end = source.value(named.end(), _end_of_call(source, named.end()))
        return ([WrittenCall(name, value)], end) if isinstance(value, dict) else None
    if behind.startswith("<"):
        return _pairs(source, named.end(), name, schema)
    return function_call(source, name, named.end() + (6 if behind.startswith(".") else 1))


def _values(source: ScannedText, at: int) -> tuple[list[WrittenCall], int] | None:
    calls: list[WrittenCall] = []
    while True:
        value, end = source.value(at, _end_of_call(source, at))
        found = in_json(value, source.tools, marked=True)
        if not found:
            return (calls, at) if calls else None
        calls += found
        if not (between := _BETWEEN.match(source.text, end)):
            return calls, end
        at = between.end()


def _end_of_call(source: ScannedText, start: int) -> int | None:
    """Where the model closed the call, if it did."""
    ends = [source.find(mark, start) for mark in ("</tool_call>", "</function_call>", "</tools>")]
    return min((end for end in ends if end >= 0), default=None)


def _pairs(
    source: ScannedText, at: int, name: str, schema: Mapping[str, Any]
) -> tuple[list[WrittenCall], int] | None:
    """GLM: keys and values by turns."""
    found: dict[str, Any] = {}
    while pair := _PAIR.match(source.text, at):
        end = source.find("</arg_value>", pair.end())
        key = pair[1].strip()
        if end < 0 or key in found:
            return None
        found[key] = fitted(key, source.text[pair.end() : end], schema)
        at = end + len("</arg_value>")
    return [WrittenCall(name, found)], at


def function_call(
    source: ScannedText, name: str, behind: int
) -> tuple[list[WrittenCall], int] | None:
    """`name(path="a")`, from after the bracket. All its arguments must be known."""
    positional, named, end = read_arguments_in_brackets(source.text, behind)
    source.spend(end - behind)
    schema = source.tools[name]
    required = list(schema.get("required", ())) or list(properties(schema))[:1]
    if len(positional) > len(required):
        return None
    arguments = dict(zip(required, positional, strict=False))
    if arguments.keys() & named.keys() or not named.keys() <= set(properties(schema)):
        return None
    arguments |= named
    if not set(schema.get("required", ())) <= set(arguments):
        return None
    return [WrittenCall(name, arguments)], end


def tagged_call(source: ScannedText, name: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """`<name><path>a</path></name>`, from after the name."""
    head = _ATTRIBUTES.match(source.text, start)
    if not head:
        return None
    schema = source.tools[name]
    arguments: dict[str, Any] = {
        found[1]: fitted(found[1], found[2] or found[3] or "", schema)
        for found in _ATTRIBUTE.finditer(head[1])
    }
    if head[2]:
        return ([WrittenCall(name, arguments)], head.end()) if arguments else None
    body = _Body(source, name, schema, _CHILD, "</{}>", f"</{name}>")
    read = body.read(head.end())
    if read is None:
        return None
    files, fields, end = read
    arguments |= fields
    if files:
        return [WrittenCall(name, each) for each in _files(files, arguments, schema)], end
    fits = arguments or not schema.get("required")
    return ([WrittenCall(name, arguments)], end) if fits else None


def parameter_call(
    source: ScannedText, name: str, start: int, space: str | None
) -> tuple[list[WrittenCall], int] | None:
    """`<function=name><parameter=x>…`, or `<invoke name="name"><parameter name="x">…`, whose tags
    may have a name space before them. From after the opening tag."""
    schema = source.tools[name]
    if space is None:
        if source.text.startswith("{", _past_space(source.text, start)):
            return _json_body(source, name, start)
        body = _Body(source, name, schema, _EQUALS_CHILD, "</parameter>", "</function>")
    else:
        mark = re.escape(space)
        child = re.compile(rf"\s*+<{mark}parameter\s+name=[\"']?([\w.-]+)[\"']?[^<>]*+>")
        body = _Body(source, name, schema, child, f"</{space}parameter>", f"</{space}invoke>")
    read = body.read(start)
    return ([WrittenCall(name, read[1])], read[2]) if read and not read[0] else None


def _json_body(source: ScannedText, name: str, start: int) -> tuple[list[WrittenCall], int] | None:
    value, end = source.value(start, None)
    return ([WrittenCall(name, value)], end) if isinstance(value, dict) else None


class _Body:
    """The arguments of a call as elements. The text of one may hold anything, even closing tags:
    it ends where its closing tag is followed by another argument or the end of the call."""

    def __init__(
        self,
        source: ScannedText,
        name: str,
        schema: Mapping[str, Any],
        child: re.Pattern[str],
        closing: str,
        end: str,
    ) -> None:
        self._source = source
        self._name = name
        self._schema = schema
        self._child = child
        self._closing = closing
        self._end = end
        self._known = set(properties(schema))

    def read(self, at: int) -> tuple[list[str], dict[str, Any], int] | None:
        """Files that Roo lists, other arguments, and where the call ends."""
        text = self._source.text
        fields: dict[str, Any] = {}
        files: list[str] = []
        while True:
            self._source.spend(0)
            at = self._past_wrappers(at)
            if (end := self._ended(at)) is not None:
                return files, fields, end
            child = self._child.match(text, at)
            if not child or child[1] == self._name or child[1] in fields:
                return None
            stop = self._stop(child[1], child.end())
            if stop is None:
                return None
            raw = text[child.end() : stop]
            if child[1] == "file" and "file" not in self._known:
                files.append(raw)
            else:
                fields[child[1]] = fitted(child[1], raw, self._schema)
            at = stop + len(self._closing.format(child[1]))

    def _past_wrappers(self, at: int) -> int:
        while (around := _AROUND_TAG.match(self._source.text, at)) and not self._known & {
            *_AROUND.split("|")
        }:
            at = around.end()
        return at

    def _ended(self, at: int) -> int | None:
        """Where the call ends, if it ends here. Its last tag may be missing at the end of all."""
        text = self._source.text
        at = _past_space(text, at)
        if text.startswith(self._end, at):
            return at + len(self._end)
        done = at == len(text) and self._source.whole
        return at if done or text.startswith("</tool_call>", at) else None

    def _stop(self, name: str, start: int) -> int | None:
        mark = self._closing.format(name)
        place = self._source.find(mark, start)
        while place >= 0:
            behind = self._past_wrappers(place + len(mark))
            if self._ended(behind) is not None:
                return place
            child = self._child.match(self._source.text, behind)
            if child and (child[1] in self._known or name not in self._known):
                return place
            place = self._source.find(mark, place + 1)
        return None


def _files(
    files: list[str], others: dict[str, Any], schema: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Roo's `<file><path>…</path><line_range>…</line_range></file>`, one call for each."""
    for raw in files:
        found = dict(re.findall(r"<(path|line_range)>([^<]*)</\1>", raw))
        path, lines = found.get("path", "").strip(), found.get("line_range", "").strip()
        if lines and "files" in properties(schema):
            yield {**others, "files": [{"path": path, "line_ranges": [lines]}]}
        else:
            yield {**others, "path": path}


def fitted(name: str, raw: str, schema: Mapping[str, Any]) -> Any:
    """An argument that was printed between tags, as its schema wants it."""
    wanted = properties(schema).get(name)
    kind = wanted.get("type", "string") if isinstance(wanted, Mapping) else "string"
    cdata = _CDATA.fullmatch(raw)
    text = cdata[1] if cdata else raw
    if kind == "string":
        return text if cdata else _as_text(name, text)
    if kind == "array" and (suggested := _SUGGESTION.findall(text)):
        return [{"text": each.strip()} for each in suggested]
    try:
        return read_whole(text.strip())
    except NoValue:
        return text.strip()


def _as_text(name: str, text: str) -> str:
    if name in (*PATHS, COMMAND):
        return text.strip()
    block = text.startswith("\n")
    text = text.removeprefix("\n")
    return text if name in WHOLE_FILE and block else text.removesuffix("\n")


def _past_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
