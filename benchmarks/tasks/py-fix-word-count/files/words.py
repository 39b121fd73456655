def word_counts(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def most_common(text):
    counts = word_counts(text)
    return max(counts, key=counts.get)
