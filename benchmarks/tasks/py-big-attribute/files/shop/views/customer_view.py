"""Shows a customer as text."""


def show_customer(customer):
    lines = [
        f"name: {customer.name}",
        f"email: {customer.email}",
        f"city: {customer.city}",
    ]
    return "\n".join(lines)


def headline(customer):
    return customer.label().upper()
