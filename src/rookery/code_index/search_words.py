"""Code and questions as words that can meet.

The tokenizer of SQLite parts words at every sign that is no letter or digit, so at underscores,
and takes their endings off. What it does not know is that a capital letter begins a word.
"""

import re

_TOKEN = re.compile(r"[A-Za-z0-9]{3,100}")
_SEAM = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORD = re.compile(r"\w+")
_LITTLE_LISTED = """
    a an and any are as at be but by can code do does each file files find for from function get
    gets has have how i if in into is it its make made of on or our out show so some than that the
    their them then there these this to up was we were what when where which who why will with
    would you
"""
_LITTLE = frozenset(_LITTLE_LISTED.split())
MOST_TERMS = 24


def parts_of(token: str) -> list[str]:
    """The words that are written together in a name; nothing if it is one word."""
    return _PART.findall(token) if _SEAM.search(token) else []


def searchable(text: str) -> str:
    """The text, and after it the words its names are made of."""
    joined = sorted({token for token in _TOKEN.findall(text) if _SEAM.search(token)})
    return "\n".join([text, *(" ".join(parts_of(token)) for token in joined)])


def expression_of(query: str) -> str:
    """What the full text is asked for: any of the words, the little ones only if there are no
    others. Empty if there are none at all."""
    words = _WORD.findall(query)
    telling = [word for word in words if word.lower() not in _LITTLE] or words
    terms = dict.fromkeys(
        term for word in telling for term in (word, *parts_of(word)) if term.strip("_")
    )
    return " OR ".join(f'"{term}"' for term in list(terms)[:MOST_TERMS])
