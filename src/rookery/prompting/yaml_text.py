"""YAML as people write it by hand, and the front matter of Markdown files.

Strangers write it too. References within a document are refused: a few lines with them can
stand for more than any memory holds.
"""

import json
from typing import Any

from rookery.core.text.characters import plain_punctuation

_UNSEEN = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060"))
_FENCE = "---"
_DEEPEST = 100
"""What is nested without end would take a second, and as many calls as there can be."""


def yaml_value(text: str) -> Any:
    """What a text means, as YAML or else as JSON. Raises `ValueError` with the place.

    Typographic quotes, dashes and spaces are taken for the plain ones that were meant.
    """
    bare = text.translate(_UNSEEN)
    if not bare:  # most often there is no file, and loading a parser takes longer than the rest
        return None
    try:
        return _loaded(plain_punctuation(bare))
    except ValueError as error:
        for attempt in (_loaded, _json):
            try:
                return attempt(bare)
            except ValueError:
                continue
        raise error


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """What stands between `---` lines at the beginning, and the rest. Raises `ValueError`."""
    lines = text.translate(_UNSEEN).split("\n") if text.startswith("\ufeff") else text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return {}, text
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise ValueError(f"its front matter has no closing {_FENCE}")
    found = yaml_value("\n".join(lines[1:end]))
    if found is not None and not isinstance(found, dict):
        raise ValueError("its front matter has no keys")
    return found or {}, "\n".join(lines[end + 1 :]).strip("\n")


def written(content: Any) -> str:
    """Plain values as YAML that people can read."""
    import yaml

    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def _loaded(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("it refers to another part of itself with *, which is not read")
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


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
