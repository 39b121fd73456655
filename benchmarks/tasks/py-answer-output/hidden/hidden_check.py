import os
import re

answer = open(os.environ["ANSWER"], encoding="utf-8").read()
assert re.search(r"\b111\b", answer), answer
