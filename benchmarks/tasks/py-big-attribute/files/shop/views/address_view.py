"""Shows a address as text."""


def show_address(address):
    lines = [
        f"street: {address.street}",
        f"zip_code: {address.zip_code}",
        f"city: {address.city}",
    ]
    return "\n".join(lines)


def headline(address):
    return address.label().upper()
