import json


def load():
    with open("config.json", encoding="utf-8") as file:
        return json.load(file)


def describe():
    config = load()
    limits = config["limits"]
    return f"{config['name']}: {limits['users']} users, {limits['files']} files"
