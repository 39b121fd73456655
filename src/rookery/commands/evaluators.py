"""Places where a shell computes with a text, or takes it for the name of a variable.

`[[ 'a[$(id)]' -eq 0 ]]` runs `id`, and so does `read 'a[$(id)]'`: an index is evaluated like a
text in double quotes, however it was quoted in the line.
"""

import re
from collections.abc import Sequence

from rookery.commands.words import Word
from rookery.commands.wrappers import program_name

NUMBER_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
NAME_TESTS = frozenset({"-v", "-R"})
_NUMBER = re.compile(r"""(["']?)(?:[+-]?[0-9]+|\$[?#!$]|\$\{#\w+\})\1""")
_NAME = re.compile(r"""(["']?)\w+\1""")
_OF_NAMES_LISTED = """
    declare typeset local export readonly unset read mapfile readarray getopts integer float
"""
_OF_NAMES = frozenset(_OF_NAMES_LISTED.split())
_INDEX = re.compile(r"\w\[[^\[\]\n]*(?:\$\(|`|[<>]\()")
MOST_BEFORE = 8


def is_number(said: str) -> bool:
    """A number, or a variable that cannot be anything else."""
    return bool(_NUMBER.fullmatch(said))


def is_name(said: str) -> bool:
    return bool(_NAME.fullmatch(said))


def holds_an_index_that_runs(text: str) -> bool:
    """Whether a command is written where the index of a variable would be."""
    return bool(_INDEX.search(text))


def evaluates(words: Sequence[Word]) -> bool:
    """Whether a shell's own command, behind others or not, evaluates what it is given."""
    return any(_evaluates(words[place:]) for place in range(min(len(words), MOST_BEFORE)))


def _evaluates(words: Sequence[Word]) -> bool:
    name, texts = program_name(words[0].text), [word.text for word in words[1:]]
    odd = any("[" in word.text or not word.known for word in words[1:])
    match name:
        case "let":
            return True
        case "printf":
            return any(text.startswith("-v") for text in texts[:2])
        case "wait":
            return any(re.match(r"-\w*p", text) for text in texts)
        case "test" | "[":
            tested = NUMBER_TESTS | NAME_TESTS
            return bool(tested & set(texts)) and not all(
                is_number(text) or re.fullmatch(r"[\w!()-]*|\]", text) for text in texts
            )
        case "declare" | "typeset" | "local" | "export" | "readonly":
            return odd or any(re.match(r"[-+]\w*i", text) for text in texts)
    return name in _OF_NAMES and odd
