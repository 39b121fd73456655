"""The invoice of the shop."""

from dataclasses import dataclass


@dataclass
class Invoice:
    number: object
    amount: object
    due: object

    def label(self):
        return f"{self.number} ({self.amount})"


def make_invoice(record):
    return Invoice(record["number"], record["amount"], record["due"])
