"""The product's name and version, and its Python API (`docs/python.md`).

Everything derived from the name is derived from here. The API is imported when one of its names is
first used: the command line starts without it. Nothing is imported here, because `python -m` looks
in the current folder first.
"""

NAME = "rookery"
VERSION = "0.1.0"
ENV_PREFIX = f"{NAME.upper()}_"
PROJECT_FOLDER = f".{NAME}"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rookery.api.public import *  # noqa: F403


def __getattr__(name: str) -> "Any":
    from importlib.util import find_spec

    if (name.startswith("_") and name != "__all__") or find_spec(f"{NAME}.{name}"):
        raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
    from rookery.api import public

    return getattr(public, name)
