"""Values: frozen, slotted, and equal if their content is.

The same as `dataclass(frozen=True, slots=True)`, made in a sixth of the time: there are more
than a hundred such classes to make at every start, and an instance or two for every word a
model says. To `fields`, `replace`, `match` and msgspec they are the dataclasses they are.
"""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

FEW = 3
"""Instances that are filled field by field before it pays to write a class its `__init__`."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """A value whose fields are given by name."""
    return _made(cls, by_name=True)


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A value whose fields may be given by their place."""
    return _made(cls, by_name=False)


def _made(cls: type[T], *, by_name: bool) -> type[T]:
    # where there is no docstring, dataclass would work out a signature to put in its place
    cls.__doc__ = cls.__doc__ or cls.__name__
    made = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=by_name)(cls)
    for name, method in {"__init__": _init_when_needed(made, by_name=by_name), **_METHODS}.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


def _init_when_needed(cls: type[Any], *, by_name: bool) -> Any:
    """To write and compile an `__init__` takes longer than all the rest of a class, and most of a
    run's classes get an instance or two, or none."""
    for name, field in cls.__dataclass_fields__.items():
        if field.default_factory is not MISSING:
            raise TypeError(f"{cls.__name__}.{name}: values share their defaults, so make none.")

    made = 0

    def __init__(self: Any, *placed: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        if made <= FEW and not (placed and by_name) and _filled(self, cls, placed, named):
            return
        init = cls.__init__ = _init_of(cls, by_name=by_name)
        init(self, *placed, **named)

    return __init__


def _filled(self: Any, cls: type[Any], placed: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether it could be filled: what is wrong with the arguments, a written `__init__` says."""
    fields = cls.__dataclass_fields__
    given = {**dict(zip(fields, placed, strict=False)), **named}
    if len(given) < len(placed) + len(named):
        return False
    for name, field in fields.items():
        content = given.pop(name, field.default)
        if content is MISSING:
            return False
        object.__setattr__(self, name, content)
    return not given


def _init_of(cls: type[Any], *, by_name: bool) -> Any:
    """Fills each slot through its own descriptor, to which a frozen value does not object."""
    scope: dict[str, Any] = {}
    parameters = ["self", *(["*"] if by_name and cls.__dataclass_fields__ else [])]
    body = ["pass"]
    for name, field in cls.__dataclass_fields__.items():
        scope[f"_set_{name}"] = getattr(cls, name).__set__
        scope[f"_default_{name}"] = field.default
        given = field.default is MISSING
        parameters.append(name if given else f"{name}=_default_{name}")
        body.append(f"_set_{name}(self, {name})")
    exec(f"def __init__({', '.join(parameters)}): {'; '.join(body)}", scope)
    return scope["__init__"]


_readers: dict[type[Any], Callable[[Any], Any]] = {}


def _content(of: Any) -> Any:
    reader = _readers.get(type(of)) or _readers.setdefault(type(of), _reader(type(of)))
    return reader(of)


def _reader(cls: type[Any]) -> Callable[[Any], Any]:
    """Reads all fields at once, several times as fast as one by one."""
    names = tuple(cls.__dataclass_fields__)
    return attrgetter(*names) if names else lambda _: ()


def _repr(self: Any) -> str:
    shown = [field.name for field in self.__dataclass_fields__.values() if field.repr]
    said = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({said})"


def _equal(self: Any, other: object) -> Any:
    return _content(self) == _content(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_content(self))


def _refuse(self: Any, name: str, *_: object) -> None:
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed.")


_METHODS: dict[str, Callable[..., Any]] = {
    "__repr__": _repr,
    "__eq__": _equal,
    "__hash__": _hash,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
}
