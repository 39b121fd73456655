"""The order of the shop."""

from dataclasses import dataclass


@dataclass
class Order:
    number: object
    status: object
    total: object

    def label(self):
        return f"{self.number} ({self.status})"


def make_order(record):
    return Order(record["number"], record["status"], record["total"])
