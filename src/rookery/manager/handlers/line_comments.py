"""Comments on lines of a diff, as one letter to whoever wrote them."""

from collections.abc import Sequence

from rookery.errors import CommandRejected
from rookery.manager.requests import Comment
from rookery.manager.review.file_diffs import TextDiff

LONGEST_QUOTE = 300
"""Characters of a line that are quoted."""


def quoted_line(diff: TextDiff, comment: Comment) -> str:
    """The line that a comment is on. Raises `CommandRejected` if there is none."""
    text = (diff.old if comment.old else diff.new).decode("utf-8", "replace")
    lines = text.split("\n")
    if not 1 <= comment.line <= len(lines):
        raise CommandRejected(
            f"{comment.path} has no line {comment.line} any more, so nothing was sent; look again."
        )
    return lines[comment.line - 1].rstrip("\r")[:LONGEST_QUOTE]


def letter_of(comments: Sequence[tuple[Comment, str]], text: str) -> str:
    """Each comment with the line it is on, then what is said about all of them."""
    said = [
        f"{comment.path}, line {comment.line}{' before the change' if comment.old else ''}:\n"
        f"> {quote}\n{comment.text.strip()}"
        for comment, quote in comments
    ]
    return "\n\n".join(["Comments on your changes:", *said, *([text.strip()] if text else [])])
