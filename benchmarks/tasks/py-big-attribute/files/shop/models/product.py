"""The product of the shop."""

from dataclasses import dataclass


@dataclass
class Product:
    title: object
    price: object
    stock: object

    def label(self):
        return f"{self.title} ({self.price})"


def make_product(record):
    return Product(record["title"], record["price"], record["stock"])
