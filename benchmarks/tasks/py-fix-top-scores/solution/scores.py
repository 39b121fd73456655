def top_scores(scores, count):
    return sorted(scores, reverse=True)[:count]


def best(scores):
    return top_scores(scores, 1)[0]
