"""`command_policy.yaml` and the older `command-policy.json`, read as carefully as intents are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.core.findings import Problem
from rookery.core.limits import KIB
from rookery.governance.intents.file_nodes import ListNode, MapNode, Node
from rookery.governance.layout import Layout
from rookery.governance.scope.command_policy import CommandPolicy, read_policy
from rookery.governance.yaml_nodes import problems_of, yaml_nodes
from rookery.platform.disk import Unreadable, small_file

LARGEST = 256 * KIB
OLDER_NAME = "command-policy.json"


def read_command_policy(layout: Layout) -> tuple[CommandPolicy, tuple[Problem, ...]]:
    """The rules of both files together, and what is wrong with them."""
    paths = (layout.command_policy_file, layout.folder / OLDER_NAME)
    read = [_read(path, layout) for path in paths]
    policy = CommandPolicy(
        rules=tuple(rule for each, _ in read for rule in each.rules),
        safe=tuple(source for each, _ in read for source in each.safe),
        destructive=tuple(source for each, _ in read for source in each.destructive),
    )
    return policy, tuple(problem for _, problems in read for problem in problems)


def _read(path: Path, layout: Layout) -> tuple[CommandPolicy, Sequence[Problem]]:
    name = layout.shown(path)
    try:
        text = small_file(path, layout.workspace, largest=LARGEST).decode("utf-8-sig")
    except FileNotFoundError:
        return CommandPolicy(), ()
    except Unreadable as error:
        return CommandPolicy(), (Problem(file=name, code=error.code, message=str(error)),)
    except UnicodeDecodeError:
        return CommandPolicy(), (Problem(file=name, code="E101", message="it is not UTF-8"),)
    root, faults = yaml_nodes(text)
    if root is None:
        return CommandPolicy(), problems_of(name, text, faults)
    policy, wrong = read_policy(_plain(root))
    return policy, [Problem(file=name, code="E214", message=each) for each in wrong]


def _plain(node: Node) -> Any:
    match node:
        case MapNode(entries=entries):
            return {each.key.text: _plain(each.value) for each in entries}
        case ListNode(items=items):
            return [_plain(each) for each in items]
        case _:
            return node.text
