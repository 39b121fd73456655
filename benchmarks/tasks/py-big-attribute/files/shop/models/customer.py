"""The customer of the shop."""

from dataclasses import dataclass


@dataclass
class Customer:
    name: object
    email: object
    city: object

    def label(self):
        return f"{self.name} ({self.email})"


def make_customer(record):
    return Customer(record["name"], record["email"], record["city"])
