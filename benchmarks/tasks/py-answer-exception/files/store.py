TABLES = {"users": {"ada": {"name": "Ada"}}}


def fetch(table, key):
    return TABLES[table].get(key)
