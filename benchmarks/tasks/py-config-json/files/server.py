import json

DEFAULT_PORT = 8000


def server_address(path="config.json"):
    with open(path, encoding="utf-8") as file:
        server = json.load(file)["server"]
    return server["host"], server.get("port", DEFAULT_PORT)
