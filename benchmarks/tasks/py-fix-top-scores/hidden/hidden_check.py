from scores import best, top_scores

given = [3, 9, 5]
assert top_scores(given, 2) == [9, 5]
assert given == [3, 9, 5]
assert top_scores([1, 2], 5) == [2, 1]
assert top_scores([], 3) == []
assert top_scores([4, 4, 1], 2) == [4, 4]
assert best([2, 7, 1]) == 7
