lines = open("app.log", encoding="utf-8").read().splitlines()
expected = sum(line.split()[2] == "ERROR" for line in lines)
assert expected == 26, expected
assert open("errors.txt", encoding="utf-8").read().split() == [str(expected)]
