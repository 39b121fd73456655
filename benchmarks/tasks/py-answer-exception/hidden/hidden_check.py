import os

answer = open(os.environ["ANSWER"], encoding="utf-8").read()
assert "UnknownUser" in answer, answer
assert "UnknownGroup" not in answer, answer
