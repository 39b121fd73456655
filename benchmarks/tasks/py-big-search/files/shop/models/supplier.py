"""The supplier of the shop."""

from dataclasses import dataclass


@dataclass
class Supplier:
    name: object
    country: object
    rating: object

    def label(self):
        return f"{self.name} ({self.country})"


def make_supplier(record):
    return Supplier(record["name"], record["country"], record["rating"])
