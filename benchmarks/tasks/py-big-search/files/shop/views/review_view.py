"""Shows a review as text."""


def show_review(review):
    lines = [
        f"author: {review.author}",
        f"stars: {review.stars}",
        f"text: {review.text}",
    ]
    return "\n".join(lines)


def headline(review):
    return review.label().upper()
