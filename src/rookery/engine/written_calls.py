"""Tool calls that a model wrote into its text instead of making them.

Only what looks like a call of a known tool counts: a tag such as `<read_file>`, or JSON that
names the tool. Tool names in sentences and in inline code are just words.
"""

import re
from collections.abc import Collection, Iterator

from rookery.core.limits import KIB

LONGEST = 64 * KIB
"""Characters at the end of an answer that are looked at."""
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")
_WRAPPED = re.compile(r"<(tool_call|function_call|tool_use)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_JSON_TO_THE_END = re.compile(r"^[ \t]*[{\[].*\Z", re.MULTILINE | re.DOTALL)
_INPUT = re.compile(r'"(?:arguments|args|input|parameters|params)"\s*:')


def written_call(text: str, tools: Collection[str]) -> str:
    """The known tool that a text calls in writing; nothing if it calls none."""
    text = text[-LONGEST:]
    if not any(tool in text for tool in tools):
        return ""
    known = "|".join(re.escape(tool) for tool in sorted(tools, key=len, reverse=True))
    rest = _INLINE.sub("", _FENCE.sub("\n", text))
    for passage in [match[2] for match in _FENCE.finditer(text)]:
        if called := _in_json(passage, known) or _tagged(passage, known):
            return called
    for passage in _unfenced_json(rest):
        if called := _in_json(passage, known):
            return called
    return _tagged(rest, known)


def _unfenced_json(text: str) -> Iterator[str]:
    yield from (match[2] for match in _WRAPPED.finditer(text))
    if match := _JSON_TO_THE_END.search(text):
        yield match[0]


def _in_json(passage: str, known: str) -> str:
    """A call needs an input, unless the key says that a tool is named."""
    if not passage.lstrip().startswith(("{", "[")):
        return ""
    named = re.search(rf'"(tool|tool_name|name|function|action)"\s*:\s*"({known})"', passage)
    if named and (named[1].startswith("tool") or _INPUT.search(passage)):
        return named[2]
    keyed = re.match(rf'\s*\{{\s*"({known})"\s*:\s*\{{', passage)
    return keyed[1] if keyed else ""


def _tagged(text: str, known: str) -> str:
    """A tag at the start of a line, or one that is closed."""
    begun = re.search(rf"^[ \t]*<({known})(?=[\s/>])", text, re.MULTILINE)
    closed = re.search(rf"<({known})(?:\s[^<>]*)?(?:/>|>.*?</\1>)", text, re.DOTALL)
    named = re.search(rf"""<(?:function=|invoke\s+name=)["']?({known})["']?\s*>""", text)
    found = begun or closed or named
    return found[1] if found else ""
