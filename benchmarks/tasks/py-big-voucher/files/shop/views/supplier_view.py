"""Shows a supplier as text."""


def show_supplier(supplier):
    lines = [
        f"name: {supplier.name}",
        f"country: {supplier.country}",
        f"rating: {supplier.rating}",
    ]
    return "\n".join(lines)


def headline(supplier):
    return supplier.label().upper()
