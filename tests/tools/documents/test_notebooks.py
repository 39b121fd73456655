import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.tools.documents.document_formats import LONGEST_OUTPUT, NotANotebook, notebook_text
from support.each_row import each_row


def text_of(*cells: Any, **fields: Any) -> str:
    return "\n".join(notebook_text(json.dumps({"nbformat": 4, "cells": cells, **fields})))


def code(*outputs: Any) -> str:
    """The text for these outputs."""
    shown = text_of({"cell_type": "code", "source": "x", "outputs": list(outputs)})
    return shown.removeprefix("--- cell 1, code ---\nx\n--- output of cell 1 ---\n")


def test_cells_are_shown_in_order():
    assert text_of(
        {"cell_type": "markdown", "source": ["# Rooks\n", "Many."]},
        {"cell_type": "code", "source": "print(1)\n", "outputs": []},
        {"cell_type": "raw", "source": ""},
    ) == (
        "--- cell 1, markdown ---\n# Rooks\nMany.\n"
        "--- cell 2, code ---\nprint(1)\n"
        "--- cell 3, raw ---"
    )


@each_row(
    ("output", "shown"),
    [
        pytest.param({"output_type": "stream", "text": ["1\n", "2\n"]}, "1\n2", id="stream"),
        pytest.param(
            {"output_type": "execute_result", "data": {"text/plain": "3"}}, "3", id="result"
        ),
        pytest.param(
            {
                "output_type": "display_data",
                "data": {"text/plain": ["<Figure>"], "image/png": "iVBOR", "text/html": "<b>"},
            },
            "<Figure>\n[image/png, not shown]",
            id="a picture is named",
        ),
        pytest.param(
            {"output_type": "display_data", "data": {"text/html": "<b>"}},
            "[text/html, not shown]",
            id="nothing to read",
        ),
        pytest.param(
            {
                "output_type": "error",
                "traceback": ["\x1b[0;31mZeroDivisionError\x1b[0m", "line 1"],
            },
            "ZeroDivisionError\nline 1",
            id="traceback without colours",
        ),
        pytest.param(
            {"output_type": "error", "ename": "E", "evalue": "why", "traceback": []},
            "E: why",
            id="error without traceback",
        ),
        pytest.param(
            {"output_type": "pyout", "text": "4", "png": "iVBOR"},
            "4\n[image/png, not shown]",
            id="version 3",
        ),
    ],
)
def test_outputs_are_shown_as_text(output: dict[str, Any], shown: str):
    assert code(output) == shown


@each_row("extra", [0, 1, 100 * LONGEST_OUTPUT])
def test_a_long_output_is_cut(extra: int):
    shown = code({"output_type": "stream", "text": "x" * (LONGEST_OUTPUT + extra)})
    note = f"\n({extra} more characters of output are not shown.)" if extra else ""
    assert shown == "x" * LONGEST_OUTPUT + note


def test_notebooks_of_version_3_are_read():
    sheets = [{"cells": [{"cell_type": "code", "input": ["a = 1"], "outputs": []}]}]
    old = json.dumps({"nbformat": 3, "worksheets": sheets})
    assert list(notebook_text(old)) == ["--- cell 1, code ---\na = 1"]


@each_row(
    "source",
    [
        *("", "{", "[]", "3", "{}", '{"cells": 3}', '{"worksheets": [3]}'),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"cells": ' + "9" * 10_000 + "}", id="long number"),
    ],
)
def test_a_file_that_is_not_a_notebook_is_reported(source: str):
    with pytest.raises(NotANotebook):
        list(notebook_text(source))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["source", "outputs", "data", "text", "output_type", "text/plain", "a"]
            ),
            inner | st.sampled_from(["stream", "error", "display_data"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(cells=st.lists(st.dictionaries(st.sampled_from(["cell_type", "source", "outputs"]), JSON)))
def test_no_notebook_is_too_strange_to_be_shown(cells: list[dict[str, Any]]):
    shown = text_of(*cells)
    assert shown.count("--- cell ") >= len(cells)
