from errors import UnknownUser
from store import fetch


def load_user(name):
    record = fetch("users", name)
    if record is None:
        raise UnknownUser(name)
    return record
