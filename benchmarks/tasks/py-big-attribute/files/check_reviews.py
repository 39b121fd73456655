from shop.stores.reviews import add_review
from shop.views.review_view import headline, show_review

review = add_review(1, {"author": "Ada", "stars": 5, "text": "good tea"})
assert show_review(review).splitlines() == ["author: Ada", "stars: 5", "text: good tea"]
assert headline(review) == "ADA (5)", headline(review)
print("ok")
