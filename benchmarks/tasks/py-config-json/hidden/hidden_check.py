import json

with open("config.json", encoding="utf-8") as file:
    config = json.load(file)
assert config == {
    "name": "notes",
    "server": {"host": "127.0.0.1", "port": 9090},
    "admin": {"port": 8081},
    "features": ["search", "export"],
}, config
from server import server_address

assert server_address() == ("127.0.0.1", 9090)
