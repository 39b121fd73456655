"""The category of the shop."""

from dataclasses import dataclass


@dataclass
class Category:
    title: object
    parent: object
    position: object

    def label(self):
        return f"{self.title} ({self.parent})"


def make_category(record):
    return Category(record["title"], record["parent"], record["position"])
