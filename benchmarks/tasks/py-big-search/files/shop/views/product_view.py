"""Shows a product as text."""


def show_product(product):
    lines = [
        f"title: {product.title}",
        f"price: {product.price}",
        f"stock: {product.stock}",
    ]
    return "\n".join(lines)


def headline(product):
    return product.label().upper()
