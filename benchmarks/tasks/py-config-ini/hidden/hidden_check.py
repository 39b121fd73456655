import configparser

from settings import load

assert load("development") == {"debug": True, "workers": 1}
assert load("production") == {"debug": False, "workers": 4}
parser = configparser.ConfigParser()
parser.read("settings.ini", encoding="utf-8")
assert parser.get("production", "log") == "/var/log/app.log"
assert parser.sections() == ["development", "production"]
