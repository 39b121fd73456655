import time

from rookery.code_index.chunks import fts_query, parts_of, searchable
from rookery.code_index.update import is_excluded
from support.each_row import each_row


@each_row(
    ("token", "parts"),
    [
        ("camelCase", ["camel", "Case"]),
        ("HTTPServerError", ["HTTP", "Server", "Error"]),
        ("parseJSON2Text", ["parse", "JSON", "2", "Text"]),
        ("plain", []),
        ("CONSTANT", []),
    ],
)
def test_names_are_made_of_words(token: str, parts: list[str]):
    assert parts_of(token) == parts


@each_row(
    ("query", "expression"),
    [
        ("how does the retry work", '"retry" OR "work"'),
        ("where is it", '"where" OR "is" OR "it"'),
        ("openFile", '"openFile" OR "open" OR "File"'),
        ('a" OR "b', '"b"'),
        ("snake_case", '"snake_case"'),
        ("?!", ""),
        ("___", ""),
    ],
)
def test_a_query_asks_for_any_of_its_telling_words(query: str, expression: str):
    assert fts_query(query) == expression


def test_what_is_searched_has_the_words_of_its_names():
    assert searchable("x = openFile(openFile)") == "x = openFile(openFile)\nopen File"


@each_row("text", ["a" * 100_000, "aB" * 50_000, "A" * 100_000, "_" * 100_000])
def test_no_text_takes_long_to_part(text: str):
    began = time.process_time()
    searchable(text)
    fts_query(text)
    assert time.process_time() - began < 5


@each_row(
    ("path", "unfit"),
    [
        ("a/.env", True),
        ("a/.env.example", True),
        ("A/Secrets.YAML", True),
        ("keys/server.key", True),
        ("web/app.min.js", True),
        ("environment.py", False),
        ("a.env/b.py", False),
        ("secrets/rotate.py", False),
        ("keys.py", False),
    ],
)
def test_files_that_hold_secrets_or_were_generated_are_unfit(path: str, unfit: bool):
    assert is_excluded(path) is unfit
