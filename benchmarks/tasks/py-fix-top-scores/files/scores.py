def top_scores(scores, count):
    scores.sort()
    return scores[:count]


def best(scores):
    return top_scores(scores, 1)[0]
