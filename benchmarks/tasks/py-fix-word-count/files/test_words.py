from words import most_common, word_counts

assert word_counts("The cat and the dog") == {"the": 2, "cat": 1, "and": 1, "dog": 1}
assert word_counts("The end. An end!") == {"the": 1, "end": 2, "an": 1}
assert most_common("a b B") == "b"
print("ok")
