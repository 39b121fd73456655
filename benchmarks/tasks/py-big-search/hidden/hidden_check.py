import os

answer = open(os.environ["ANSWER"], encoding="utf-8").read()
assert "shop/stores/parcels.py" in answer, answer
assert "shop/models/parcel.py" not in answer and "shop/views/parcel_view.py" not in answer, answer
