"""The public names of `rookery`, with their signatures, are those in `public_names.txt`.

After a deliberate change: `python tests/api/test_public_names.py > tests/api/public_names.txt`.
"""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rookery
from rookery.api import public

GOLDEN = Path(__file__).parent / "public_names.txt"


def described(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, type):
        yield f"{name}{inspect.signature(value) if inspect.isroutine(value) else f' = {value}'}"
        return
    yield f"class {name}({value.__base__.__name__ if value.__base__ else ''})"
    if issubclass(value, msgspec.Struct):
        types = {k: v for base in reversed(value.__mro__) for k, v in _annotations(base).items()}
        yield from (
            f"    {field}: {inspect.formatannotation(types[field])}"
            for field in value.__struct_fields__
        )
    if issubclass(value, Enum):
        yield from (f"    {each.name} = {each.value!r}" for each in value)
    for member, found in sorted(vars(value).items()):
        if isinstance(found, property):
            yield f"    {member}"
        elif inspect.isfunction(found) and not member.startswith("_"):
            yield f"    {member}{inspect.signature(found)}"


def _annotations(value: type) -> dict[str, Any]:
    return vars(value).get("__annotations__", {})


def all_names() -> str:
    lines = [line for name in public.__all__ for line in described(name, getattr(rookery, name))]
    return re.sub(r" at 0x\w+", "", "\n".join(lines)) + "\n"


def test_the_public_names_change_only_on_purpose():
    assert all_names() == GOLDEN.read_text(encoding="utf-8")


def test_importing_rookery_loads_none_of_its_packages():
    probe = (
        "import sys, rookery; from rookery import tools; dir(rookery); hasattr(rookery, '__x__')\n"
        "print([m for m in sys.modules if m.startswith('rookery.') and m != 'rookery.tools'])"
    )
    environ = {"PYTHONPATH": str(Path(rookery.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environ, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = rookery.nothing_like_it  # type: ignore[attr-defined]


if __name__ == "__main__":
    print(all_names(), end="")
