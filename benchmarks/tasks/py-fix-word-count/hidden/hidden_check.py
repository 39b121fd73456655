from words import most_common, word_counts

assert word_counts("The cat and the dog") == {"the": 2, "cat": 1, "and": 1, "dog": 1}
assert word_counts("Yes, yes; YES!") == {"yes": 3}
assert word_counts("(one) two, one?") == {"one": 2, "two": 1}
assert word_counts("don't stop") == {"don't": 1, "stop": 1}
assert word_counts("") == {}
assert most_common("x Y y") == "y"
