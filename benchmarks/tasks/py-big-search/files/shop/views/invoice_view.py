"""Shows a invoice as text."""


def show_invoice(invoice):
    lines = [
        f"number: {invoice.number}",
        f"amount: {invoice.amount}",
        f"due: {invoice.due}",
    ]
    return "\n".join(lines)


def headline(invoice):
    return invoice.label().upper()
