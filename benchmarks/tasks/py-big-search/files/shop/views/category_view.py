"""Shows a category as text."""


def show_category(category):
    lines = [
        f"title: {category.title}",
        f"parent: {category.parent}",
        f"position: {category.position}",
    ]
    return "\n".join(lines)


def headline(category):
    return category.label().upper()
