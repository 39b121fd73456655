"""The address of the shop."""

from dataclasses import dataclass


@dataclass
class Address:
    street: object
    zip_code: object
    city: object

    def label(self):
        return f"{self.street} ({self.zip_code})"


def make_address(record):
    return Address(record["street"], record["zip_code"], record["city"])
