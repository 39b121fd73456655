"""Keys that lead from one thing to another."""

import pytest

from rookery.tui.input_router import next_name


@pytest.mark.parametrize(
    ("here", "there"),
    [("code", "ask"), ("ask", "plan"), ("plan", "code"), ("gone", "code"), ("", "code")],
)
def test_names_go_round_and_begin_with_the_first(here: str, there: str):
    assert next_name(here, ["code", "ask", "plan"]) == there
