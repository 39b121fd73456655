"""Lines by which a model stands in for text it did not write out."""

import re

_LEADS = re.compile(r"\s*(?://|#|--|;|/\*|\*|<!--|\{/\*|%|\"\"\"|'''|\.\.\.|…|\[|\()")
_ELLIPSIS = re.compile(r"\.\.\.|…")
_THING = (
    r"(?:file|code|content|contents|text|function|functions|class|classes|method|methods|"
    r"implementation|document|module|component|lines|section|logic|imports)"
)
_LEFT_OUT = re.compile(
    r"\b(?:rest|remainder|remaining|existing|previous|unchanged|omitted|same as before|"
    r"stays the same|remains the same)\b",
    re.IGNORECASE,
)
_WORDED = re.compile(
    rf"\b(?:rest of (?:the |your |this |my )?(?:\w+ )?{_THING}|"
    rf"(?:existing|previous|remaining|other) {_THING})\b.*"
    r"\b(?:unchanged|same|here|omitted|before|as is|remains?|stays?)\b",
    re.IGNORECASE,
)
_LONGEST = 120


def omission(new: str, old: str = "") -> str | None:
    """The first line of `new` that stands for something left out, unless `old` has it too."""
    known: set[str] | None = None
    for line in new.split("\n"):
        if not _stands_in(line):
            continue
        if known is None:
            known = {there.strip() for there in old.split("\n")}
        if line.strip() not in known:
            return line.strip()
    return None


def _stands_in(line: str) -> bool:
    if len(line) > _LONGEST or not _LEADS.match(line):
        return False
    if _ELLIPSIS.search(line):
        return bool(_LEFT_OUT.search(line))
    return bool(_WORDED.search(line))
