def page_count(items, per_page):
    """How many pages are needed for so many items."""
    return items // per_page + 1


def page_of(index, per_page):
    """The page, from 1, on which the item with this index is."""
    return index // per_page + 1


def items_on_page(values, page, per_page):
    start = (page - 1) * per_page
    return values[start : start + per_page]
