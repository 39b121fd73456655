import os
import re

answer = open(os.environ["ANSWER"], encoding="utf-8").read()
ports = {number for number in re.findall(r"\d+", answer.replace("127.0.0.1", "")) if len(number) == 4}
assert ports == {"7431"}, answer
