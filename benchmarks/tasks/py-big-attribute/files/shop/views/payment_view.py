"""Shows a payment as text."""


def show_payment(payment):
    lines = [
        f"method: {payment.method}",
        f"amount: {payment.amount}",
        f"fee: {payment.fee}",
    ]
    return "\n".join(lines)


def headline(payment):
    return payment.label().upper()
