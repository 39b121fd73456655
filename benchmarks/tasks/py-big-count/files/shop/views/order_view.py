"""Shows a order as text."""


def show_order(order):
    lines = [
        f"number: {order.number}",
        f"status: {order.status}",
        f"total: {order.total}",
    ]
    return "\n".join(lines)


def headline(order):
    return order.label().upper()
