import os

os.environ.pop("APP_URL", None)
os.environ.pop("APP_TIMEOUT", None)
import client

assert client.timeout() == 30
os.environ["APP_TIMEOUT"] = "5"
import importlib

importlib.reload(client)
assert client.timeout() == 5, client.timeout()
assert client.describe() == "http://localhost:8000 (5 s)", client.describe()
os.environ["APP_URL"] = "http://x"
assert client.base_url() == "http://x"
