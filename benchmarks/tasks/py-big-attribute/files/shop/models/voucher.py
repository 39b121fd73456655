"""The voucher of the shop."""

from dataclasses import dataclass


@dataclass
class Voucher:
    code: object
    percent: object
    expires: object

    def label(self):
        return f"{self.code} ({self.percent})"


def make_voucher(record):
    return Voucher(record["code"], record["percent"], record["expires"])
