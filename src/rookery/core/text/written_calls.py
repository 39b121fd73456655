"""Tool calls that a model printed as text: all of them, and the words that remain.

The text is read once from its beginning. A call counts where a model would make one: on a line of
its own, after a colon or a full stop, or in a fence that holds nothing else. It does not count in
inline code, in thinking, in a quotation, or where it is introduced as an example; nor if it is
copied from the result of a tool.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from rookery.core.text.call_shapes import (
    ScannedText,
    Tools,
    TooMuchWork,
    WrittenCall,
    function_call,
    in_json,
    known_name,
    marked_calls,
    parameter_call,
    properties,
    tagged_call,
)
from rookery.core.text.literals import NoValue
from rookery.core.tool_traits import COMMAND, closest

__all__ = ["Tools", "Written", "WrittenCall", "closest", "read_calls"]

WRITING = "write_to_file"
LOOK_BACK = 400
"""Characters before a call that decide whether it is an example."""
MOST_SHOWN = 2_000_000
"""Characters of the newest results that are searched for copied calls."""

_MARKER = (
    r"<tool_call>|<function_call>|<functioncall>|<tool_use>|<tools>|<\|tool_call\|>|<\|tool_call>"
    r"|<start_function_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁call▁begin｜>"
    r"|<\|tool_call_begin\|>|(?:<\|start\|>assistant)?<\|channel\|>commentary to=|functools(?=\[)"
)
_WRAPPERS = (
    r"(?:｜DSML｜|[a-z]+:)?(?:tool_calls?|function_calls?|functioncall|tool_use|tools|tool_code"
    r"|function|invoke)>"
)
_OPENED = re.compile(
    rf"(?:\s*+(?:<{_WRAPPERS}|<｜tool▁calls▁begin｜>|<\|tool_calls_section_begin\|>))++\s*+"
)
_CLOSED = re.compile(
    rf"(?:\s*+(?:</{_WRAPPERS}|<｜tool▁calls?▁end｜>|<｜end▁of▁sentence｜>|<tool_call\|>"
    r"|<\|tool_calls_section_end\|>|<\|tool_call_end\|>|<\|/tool_call\|>|<end_function_call>"
    r"|<\|(?:eot_id|eom_id|im_end|call|end)\|>|</s>|```(?=<)))*+"
)
_THINKING = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<|channel|>analysis": "<|end|>",
    "[THINK]": "[/THINK]",
}
_FENCE = r"[ ]{0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$"
_FUNCTION = r"(?P<list>\[[ \t]*+)?(?:print\()?(?:functions\.|default_api\.)?"
_EXAMPLE = re.compile(
    r"\b(?:for|an?|this|another|as an|following) (?:short |simple )?(?:example|instance)\b"
    r"|\bexamples?(?: (?:of|call|usage|output)\b.*)?:?\s*$|\be\.g\.|\blooks? like\b"
    r"|\blike (?:this|so|that)\W*$|\b(?:format|syntax|usage)\b.{0,20}:\s*$"
    r"|\byou (?:can|could|would|might|may|should)\b|\b(?:would|could) (?:call|write|use|be)\b",
    re.IGNORECASE,
)
_PATH_LINE = re.compile(
    r"(?:[#*\-\s]|\d+[.)])*(?:(?:file|filename|file path|path|create|update|write|edit|modify)\b"
    r"(?: (?:the )?file)?\s*:?\s*)?[`*_\"']*(?P<path>[\w.@+~-]*(?:/[\w.@+-]+)*)"
    r"[`*_\"']*\s*:?[*\s]*",
    re.IGNORECASE,
)
_NAMES_OF_FILES = re.compile(
    r"(?:[\w.@+~-]*/)*(?:[\w.@+-]*\.[A-Za-z]\w{0,9}|Makefile|Dockerfile|LICENSE|Procfile|Gemfile)"
)
_NOT_FILES = re.compile(r"(?:node|next|vue|react|nuxt|express|three|d3|asp)?\.(?:js|net)", re.I)
_SHELLS = {"sh", "bash", "shell", "zsh", "console", "terminal", "shell-session"}
_OUTPUTS = {"diff", "patch", "text", "output", "log", "console", "traceback"}
_ELISION = re.compile(
    r"^\s*(?:#|//|/\*|<!--|--|;)\s*(?:\.\.\.|…|(?:the )?rest of|(?:your )?existing|remaining|"
    r"unchanged|same as)|^(?:\.\.\.|…)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_FENCES_AROUND = re.compile(r"\A[ ]{0,3}(?:`{3,}|~{3,})[^\n]*\n|\n[ ]{0,3}(?:`{3,}|~{3,})\s*\Z")
_LINE_NUMBER = re.compile(r"^ *\d+ \| ?", re.MULTILINE)


class Written(Struct, frozen=True):
    """The calls in an answer, in order, and its other words."""

    calls: tuple[WrittenCall, ...] = ()
    words: str = ""
    mentioned: bool = False
    """Whether a call is in an example, a quotation or a copied text, where it is not made."""


class _Passage(Struct, frozen=True):
    """A part of the text that is nothing but calls."""

    start: int
    end: int
    calls: list[WrittenCall]
    implied: bool = False
    """Whether no tool is named: it is a shell block or a file."""


def read_calls(
    text: str, tools: Tools, *, whole: bool = True, shown: Iterable[str] = ()
) -> Written:
    """The calls of known tools that a text makes. `whole`: the answer was not cut off, so that what
    is missing at its end may be added. `shown` are the results of tools, newest first."""
    scan = _Scan(text, tools, whole)
    found = scan.passages()
    passages = _own(text, found, shown) if found else []
    if found and not passages:
        return Written(words=text, mentioned=True)
    if not passages:
        return Written(words=text, mentioned=scan.mentioned)
    calls = [call for passage in passages for call in passage.calls]
    ends = [0, *(passage.end for passage in passages)]
    starts = [*(passage.start for passage in passages), len(text)]
    between = [text[start:end].strip() for start, end in zip(ends, starts, strict=True)]
    return Written(tuple(calls), "\n\n".join(filter(None, between)))


def _own(text: str, found: list[_Passage], shown: Iterable[str]) -> list[_Passage]:
    """The passages without those that the model copied: it quotes them, or obeys a stranger."""
    room = MOST_SHOWN
    for result in shown:
        bare = _bare(result[:room])
        room -= len(result)
        found = [
            each
            for each in found
            if each.implied
            or _bare(_FENCES_AROUND.sub("", text[each.start : each.end])) not in bare
        ]
        if room <= 0 or not found:
            break
    return found


def _bare(text: str) -> str:
    """A text without white space and the numbers of lines, to compare it."""
    return "".join(_LINE_NUMBER.sub("", text).split())


class _Scan:
    """Goes through a text from one place that may begin a call to the next."""

    def __init__(self, text: str, tools: Tools, whole: bool, *, fenced: bool = False) -> None:
        self._source = ScannedText(text, tools, whole=whole)
        self._text = text
        self._tools = tools
        self._fenced = fenced
        self.mentioned = False
        self._first = len(text) - len(text.lstrip())
        self._last = len(text.rstrip())
        self._starts = _starts(tuple(tools))

    def passages(self) -> list[_Passage]:
        found: list[_Passage] = []
        at = self._past_unopened_thinking()
        try:
            while self._tools and (start := self._starts.search(self._text, at)):
                passage, at = self._at(start)
                if passage:
                    found.append(self._trimmed(passage, found[-1].end if found else 0))
                    at = found[-1].end
        except TooMuchWork:
            pass
        return found

    def _at(self, start: re.Match[str]) -> tuple[_Passage | None, int]:
        """What begins here, and where to continue if it is not a call."""
        if start["thinking"]:
            end = self._source.find(_THINKING[start["thinking"]], start.end())
            return None, end if end >= 0 else len(self._text)
        if start["code"] or start["quotation"]:
            return None, start.end()
        if start["fence"]:
            return self._fence(start)
        try:
            read = self._read(start)
        except NoValue as error:
            self._source.spend(error.reached - start.start())
            read = None
        if read is None or not read[0]:
            return None, start.end()
        if not self._is_meant(start, read[1]):
            self.mentioned = True
            return None, start.end()
        return _Passage(start.start(), read[1], read[0]), read[1]

    def _read(self, start: re.Match[str]) -> tuple[list[WrittenCall], int] | None:
        source, end = self._source, start.end()
        if start["marker"]:
            return marked_calls(source, end)
        if named := start["equals"] or start["invoked"]:
            name = known_name(named, self._tools, marked=True)
            return parameter_call(source, name, end, start["space"]) if name else None
        if start["tag"]:
            return tagged_call(source, start["tag"], end)
        if start["function"]:
            return self._functions(start)
        if not any(source.find(name, end) >= 0 for name in self._tools):
            return None
        value, end = source.value(start.start("json"))
        return in_json(value, self._tools), end

    def _functions(self, start: re.Match[str]) -> tuple[list[WrittenCall], int] | None:
        """One call in function syntax, or a list of them."""
        closing = ")" if "print(" in start[0] else ""
        read = function_call(self._source, start["function"], start.end())
        calls: list[WrittenCall] = []
        while read is not None:
            calls += read[0]
            end = read[1]
            if not start["list"]:
                closed = self._text.startswith(closing, end)
                return (calls, end + len(closing)) if closed else None
            following = re.compile(r"\s*+(?:,\s*+([A-Za-z_]\w*+)\(|\])").match(self._text, end)
            if not following:
                return None
            if not following[1]:
                return calls, following.end()
            if following[1] not in self._tools:
                return None
            read = function_call(self._source, following[1], following.end())
        return None

    def _is_meant(self, start: re.Match[str], end: int) -> bool:
        """Whether the call stands where one is made, not where one is mentioned."""
        token = bool(start["marker"]) and ("|" in start["marker"] or "[" in start["marker"])
        if self._fenced or (token and "｜" not in start["marker"]) or "｜" in start[0]:
            return True
        begin = self._text.rfind("\n", max(start.start() - LOOK_BACK, 0), start.start()) + 1
        before = self._text[begin : start.start()].strip()
        if before and not before.endswith((".", ":", "!", "?", ">", "…", ")")):
            return False
        if _EXAMPLE.search(before or self._line_before(begin)):
            return False
        end = self._past_closing(end)
        rest = self._text[end : end + 80].split("\n", 1)[0].strip(" \t\r;,}")
        marked = start["marker"] or start["equals"] or start["invoked"]
        return not rest or rest.startswith("<") or (bool(marked) and not before)

    def _line_before(self, place: int) -> str:
        lines = self._text[max(place - LOOK_BACK, 0) : place].rstrip().rsplit("\n", 1)
        return lines[-1].strip()

    def _fence(self, start: re.Match[str]) -> tuple[_Passage | None, int]:
        mark, info = start["fence"], start["info"].strip()
        body = min(start.end() + 1, len(self._text))
        closing = re.compile(rf"^[ ]{{0,3}}{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
        closed = closing.search(self._text, body)
        end, stop = (closed.end(), closed.start()) if closed else (len(self._text),) * 2
        content = self._text[body:stop]
        self._source.spend(len(content))
        before = self._line_before(start.start())
        if self._fenced or not (closed or self._source.whole):
            return None, end
        if _EXAMPLE.search(before):
            self.mentioned = True
            return None, end
        if calls := _only_calls(content, self._tools):
            return _Passage(start.start(), end, calls), end
        if not closed:
            return None, end
        if call := self._command(info, content, start.start(), end):
            return _Passage(start.start(), end, [call], implied=True), end
        return self._file(start, info, content, before, end), end

    def _command(self, info: str, content: str, start: int, end: int) -> WrittenCall | None:
        """A shell block that is all of the answer."""
        if info.lower() not in _SHELLS or start > self._first or end < self._last:
            return None
        tool = next((name for name in self._tools if _runs_commands(self._tools[name])), "")
        lines = content.strip().splitlines()
        if lines and all(line.startswith("$ ") for line in lines):
            lines = [line[2:] for line in lines]
        command = "\n".join(lines)
        return WrittenCall(tool, {COMMAND: command}) if tool and command else None

    def _file(
        self, start: re.Match[str], info: str, content: str, before: str, end: int
    ) -> _Passage | None:
        """A path, and below it the whole file."""
        if not {"path", "content"} <= set(properties(self._tools.get(WRITING, {}))):
            return None
        language, _, given = info.replace(":", " ").partition(" ")
        begin = start.start()
        path = _path_in(given) or _path_in(language)
        if not path and (path := _path_in(before)):
            begin = self._text.rfind(before, 0, begin)
        if not path or not _is_file(path, language.lower(), content):
            return None
        if path.endswith(".md") and self._source.find("```", end) >= 0:
            return None  # the fence may have ended within the file
        call = WrittenCall(WRITING, {"path": path, "content": content})
        return _Passage(begin, end, [call], implied=True)

    def _trimmed(self, passage: _Passage, from_: int) -> _Passage:
        """Without the wrappers and end marks around a call."""
        before = self._text[max(from_, passage.start - LOOK_BACK) : passage.start]
        opened = [match for match in _OPENED.finditer(before) if match.end() == len(before)]
        begin = passage.start - len(opened[0][0]) if opened else passage.start
        end = self._past_closing(passage.end)
        return _Passage(begin, end, passage.calls, passage.implied)

    def _past_closing(self, at: int) -> int:
        closed = _CLOSED.match(self._text, at)
        return closed.end() if closed else at

    def _past_unopened_thinking(self) -> int:
        """Some servers send the end of the thinking, but not its beginning."""
        end = self._text.find("</think>")
        opened = self._text.find("<think>", 0, max(end, 0))
        return end + len("</think>") if end >= 0 and opened < 0 else 0


@lru_cache(maxsize=8)
def _starts(tools: tuple[str, ...]) -> re.Pattern[str]:
    """Everything that may begin a call of these tools, and what must be skipped."""
    names = "|".join(re.escape(name) for name in sorted(tools, key=len, reverse=True))
    return re.compile(
        rf"(?P<thinking>{'|'.join(map(re.escape, _THINKING))})"
        rf"|^{_FENCE}"
        r"|(?P<code>``[^\n]+?``|`[^`\n]+`)"
        r"|(?P<quotation>^[ \t]*+>[^\n]*)"
        rf"|(?P<marker>{_MARKER})"
        r"|<function=(?P<equals>[\w.-]+)>"
        r"|<(?P<space>[\w:｜]*)invoke\s+name=[\"']?(?P<invoked>[\w.-]+)[\"']?\s*>"
        rf"|<(?P<tag>{names})(?=[\s/>])"
        rf"|^[ \t]*+{_FUNCTION}(?P<function>{names})\("
        r"|^[ \t]*+(?P<json>[{\[])",
        re.MULTILINE,
    )


def _only_calls(content: str, tools: Tools) -> list[WrittenCall]:
    """The calls of a fence that holds nothing else."""
    found = _Scan(content, tools, True, fenced=True).passages()
    at = 0
    for passage in found:
        if content[at : passage.start].strip(" \t\r\n;,"):
            return []
        at = passage.end
    rest = content[at:].strip(" \t\r\n;,}")
    return [] if rest else [call for passage in found for call in passage.calls]


def _runs_commands(schema: Mapping[str, object]) -> bool:
    return schema.get("required") == [COMMAND]


def _path_in(line: str) -> str:
    found = _PATH_LINE.fullmatch(line) if 0 < len(line) <= 200 else None
    path = found["path"] if found else ""
    return path if _NAMES_OF_FILES.fullmatch(path) and not _NOT_FILES.fullmatch(path) else ""


def _is_file(path: str, language: str, content: str) -> bool:
    """Whether a fence seems to hold the whole file."""
    suffix = path.rpartition(".")[2].lower()
    if language in _SHELLS and suffix not in _SHELLS:
        return False
    if language in _OUTPUTS and suffix not in ("txt", "md", "log", "rst", "csv", language):
        return False
    return bool(content.strip()) and not _ELISION.search(content)
