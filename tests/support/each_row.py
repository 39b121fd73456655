"""Run a test for each row of a table. It counts as one test, and names all rows that fail.

    @each_row(("text", "number"), [("1", 1), ("2", 2)])
    def test_a_number_is_read(text: str, number: int): ...

For tables of cheap, pure cases: `pytest.mark.parametrize` makes each row a test, and starting a
test takes longer than most rows. The rows share the test's fixtures, so these must not change.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from _pytest.mark import ParameterSet


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Any], Any]:
    named = tuple(each.strip() for each in names.split(",")) if isinstance(names, str) else names
    table = [ParameterSet.extract_from(row, force_tuple=len(named) == 1) for row in rows]
    assert table, "There are no rows."
    assert not any(row.marks for row in table), "Rows cannot have marks."

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def of_all(*args: Any, **fixtures: Any) -> None:
            failed: list[Exception] = []
            for row in table:
                with _noted(row, failed):
                    test(*args, **dict(zip(named, row.values, strict=True)), **fixtures)
            _raise(failed, len(table))

        @functools.wraps(test)
        async def of_all_async(*args: Any, **fixtures: Any) -> None:
            failed: list[Exception] = []
            for row in table:
                with _noted(row, failed):
                    await test(*args, **dict(zip(named, row.values, strict=True)), **fixtures)
            _raise(failed, len(table))

        chosen = of_all_async if inspect.iscoroutinefunction(test) else of_all
        whole = inspect.signature(test)
        left = [each for name, each in whole.parameters.items() if name not in named]
        chosen.__signature__ = whole.replace(parameters=left)  # type: ignore[attr-defined]
        return chosen

    return decorate


@contextmanager
def _noted(row: ParameterSet, failed: list[Exception]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"in the row {row.id or row.values!r}")
        failed.append(error)


def _raise(failed: list[Exception], count: int) -> None:
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {count} rows failed", failed)
