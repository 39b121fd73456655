"""Shows a voucher as text."""


def show_voucher(voucher):
    lines = [
        f"code: {voucher.code}",
        f"percent: {voucher.percent}",
        f"expires: {voucher.expires}",
    ]
    return "\n".join(lines)


def headline(voucher):
    return voucher.label().upper()
