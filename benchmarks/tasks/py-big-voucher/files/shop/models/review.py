"""The review of the shop."""

from dataclasses import dataclass


@dataclass
class Review:
    author: object
    stars: object
    text: object

    def label(self):
        return f"{self.author} ({self.stars})"


def make_review(record):
    return Review(record["author"], record["stars"], record["text"])
