"""The refund of the shop."""

from dataclasses import dataclass


@dataclass
class Refund:
    number: object
    amount: object
    reason: object

    def label(self):
        return f"{self.number} ({self.amount})"


def make_refund(record):
    return Refund(record["number"], record["amount"], record["reason"])
