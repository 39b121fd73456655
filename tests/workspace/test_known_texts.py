from rookery.engine.ports.workspace import FileBytes, FileText
from rookery.workspace.files import KnownTexts


def text(sha: str, length: int) -> FileText:
    return FileText(path="a", text=sha[-1:] * length, sha=sha)


def test_the_newest_texts_are_known_as_long_as_there_is_room():
    known = KnownTexts(most=10)
    for file in (text("1", 4), text("2", 4), text("1", 4), text("3", 4)):
        assert known.remember(file) is file
    assert [known.get(sha) for sha in "123"] == ["1111", None, "3333"]


def test_what_is_too_long_or_has_no_hash_or_is_no_text_is_not_kept():
    known = KnownTexts(most=10)
    for file in (text("1", 10), text("2", 11), text("", 1), FileBytes(path="a", data=b"", sha="3")):
        known.remember(file)
    assert known.remember(None) is None
    assert [known.get(sha) for sha in ("1", "2", "", "3")] == ["1" * 10, None, None, None]
