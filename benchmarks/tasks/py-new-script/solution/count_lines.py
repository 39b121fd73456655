import sys

with open(sys.argv[1], encoding="utf-8") as file:
    print(sum(1 for line in file if line.strip()))
