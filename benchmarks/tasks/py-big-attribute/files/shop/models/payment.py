"""The payment of the shop."""

from dataclasses import dataclass


@dataclass
class Payment:
    method: object
    amount: object
    fee: object

    def label(self):
        return f"{self.method} ({self.amount})"


def make_payment(record):
    return Payment(record["method"], record["amount"], record["fee"])
