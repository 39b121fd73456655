"""The parcel of the shop."""

from dataclasses import dataclass


@dataclass
class Parcel:
    code: object
    weight: object
    carrier: object

    def label(self):
        return f"{self.code} ({self.weight})"


def make_parcel(record):
    return Parcel(record["code"], record["weight"], record["carrier"])
