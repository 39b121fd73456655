"""The document of facts and commands matches the code."""

from functools import cache
from typing import get_args

from rookery.core.commands import Command
from rookery.core.facts import Fact, Unrecognised
from rookery.protocol.codec import kind_of
from support import facts_document
from support.each_row import each_row
from support.facts_document import DOCUMENT, SENTENCES

KINDS = [kind_of(cls) for cls in (*get_args(Fact), *get_args(Command)) if cls is not Unrecognised]

document = cache(facts_document.document)


def test_the_document_is_up_to_date():
    """If not: `make pages`."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


@each_row("kind", KINDS)
def test_every_fact_and_command_has_an_entry(kind: str):
    assert f"### `{kind}`\n" in document()


def test_every_description_belongs_to_an_existing_fact():
    assert set(SENTENCES) <= {*KINDS, "todo"}
