"""A YAML file as a tree of texts, each with the place it stands at.

Nothing in it was converted: `no` is the text "no". Lines and columns count from 1; `start` and
`end` are places in the file's text, so that somebody who edits it can leave the rest alone.
"""

from typing import TypeAlias

from msgspec import Struct


class TextNode(Struct, frozen=True):
    """`plain` if it stood without quotes, so that nothing at all may be meant by it."""

    text: str
    line: int
    column: int
    start: int
    end: int
    plain: bool = True

    @property
    def is_nothing(self) -> bool:
        return self.plain and self.text in ("", "~", "null")


class ListNode(Struct, frozen=True):
    items: "tuple[Node, ...]"
    line: int
    column: int
    start: int
    end: int
    flow: bool = False


class Entry(Struct, frozen=True):
    key: TextNode
    value: "Node"


class MapNode(Struct, frozen=True):
    entries: tuple[Entry, ...]
    line: int
    column: int
    start: int
    end: int
    flow: bool = False

    def get(self, key: str) -> "Node | None":
        found = self.entry(key)
        return found.value if found else None

    def entry(self, key: str) -> Entry | None:
        for each in self.entries:
            if each.key.text == key:
                return each
        return None


Node: TypeAlias = TextNode | ListNode | MapNode


def last_place(node: Node) -> int:
    """Where what the node says ends. Blocks claim the blanks and comments after them; these do
    not belong to what they say."""
    match node:
        case ListNode(items=items, flow=False) if items:
            return last_place(items[-1])
        case MapNode(entries=entries, flow=False) if entries:
            return last_place(entries[-1].value)
        case _:
            return node.end
