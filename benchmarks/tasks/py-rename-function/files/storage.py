import json


def get_data(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, records):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(records, file)
