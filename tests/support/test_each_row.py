import anyio
import pytest

from support.each_row import each_row


@each_row("number", [1, 2, pytest.param(3, id="three"), 4])
def is_odd(number: int) -> None:
    assert number % 2


@each_row("left", [1, 2])
@each_row(("right", "total"), [(1, 2), (2, 3)])
def adds_up(folder: str, left: int, right: int, total: int) -> None:
    assert (folder, left + right) == ("fixture", total)


def test_all_rows_run_and_those_that_fail_are_named():
    with pytest.raises(ExceptionGroup, match="2 of 4 rows failed") as caught:
        is_odd()
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [["in the row (2,)"], ["in the row (4,)"]]


def test_tables_are_multiplied_and_fixtures_are_passed_on():
    with pytest.raises(ExceptionGroup, match="1 of 2 rows failed") as caught:
        adds_up(folder="fixture")
    assert caught.value.exceptions[0].__notes__ == ["in the row (2,)"]


@pytest.mark.anyio
@each_row("number", [1, 2, 4])
async def test_the_rows_of_an_async_test_are_awaited(number: int):
    assert number


def test_a_failing_row_of_an_async_test_is_named():
    @each_row("number", [1, 2])
    async def is_one(number: int) -> None:
        assert number == 1

    with pytest.raises(ExceptionGroup, match="1 of 2 rows failed"):
        anyio.run(is_one)
