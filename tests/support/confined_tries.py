"""Run many commands in one sandbox."""

import uuid
from collections.abc import Callable, Mapping


def try_each(
    commands: Mapping[str, str], run: Callable[[str], tuple[int, str]]
) -> dict[str, tuple[int, str]]:
    """Exit status and output of each command; all run in one sandbox, each in its own shell."""
    mark = uuid.uuid4().hex
    shells = (f"( {command}\n) 2>&1; printf '{mark} %s\\n' $?" for command in commands.values())
    _, said = run("\n".join(shells))
    *parts, rest = said.split(f"{mark} ")
    assert (len(parts), rest.count("\n")) == (len(commands), 1), said
    found, status = {}, [int(part.partition("\n")[0]) for part in (*parts[1:], rest)]
    for name, code, part in zip(commands, status, parts, strict=True):
        found[name] = (code, part if not found else part.partition("\n")[2])
    return found
