from shop.models.review import Review
from shop.stores.reviews import add_review, all_by_author
from shop.views.order_view import headline as order_headline
from shop.views.review_view import headline, show_review

assert headline(Review("bob", 3, "fine")) == "BOB (3)"
assert show_review(Review("bob", 3, "fine")).splitlines() == ["author: bob", "stars: 3", "text: fine"]
assert order_headline.__name__ == "headline"
add_review(2, {"author": "Zoe", "stars": 1, "text": "cold"})
add_review(3, {"author": "Cy", "stars": 2, "text": "late"})
assert [each.author for each in all_by_author()] == ["Cy", "Zoe"]
