from app import describe, load

assert load() == {"name": "demo", "debug": True, "limits": {"users": 10, "files": 20}}, load()
assert describe() == "demo: 10 users, 20 files"
