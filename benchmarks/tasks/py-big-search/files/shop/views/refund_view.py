"""Shows a refund as text."""


def show_refund(refund):
    lines = [
        f"number: {refund.number}",
        f"amount: {refund.amount}",
        f"reason: {refund.reason}",
    ]
    return "\n".join(lines)


def headline(refund):
    return refund.label().upper()
