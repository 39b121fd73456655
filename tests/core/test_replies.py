import pytest

from rookery.core.replies import approved_with, denied, failed, sentence_in
from support.each_row import each_row


@each_row(
    ("result", "words"),
    [
        (failed("There is no\n\nfile a."), "There is no\n\nfile a."),
        (denied("Use b."), "Use b."),
        (denied(), "The user denied this call."),
        (approved_with("Quick.", failed("No room.")), "No room."),
        (approved_with("Quick.", "Directory: .\n\nno"), "Directory: .\n\nno"),
        ("This call was not run.", "This call was not run."),
        ('{"message": "of a program"}', '{"message": "of a program"}'),
        ("[]", "[]"),
        ("", ""),
        pytest.param("[" * 100_000, "[" * 100_000, id="nested deeply"),
    ],
)
def test_the_message_can_be_read_back_from_a_result(result: str, words: str):
    assert sentence_in(result) == words
