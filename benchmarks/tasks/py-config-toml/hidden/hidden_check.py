import tomllib

with open("pyproject.toml", "rb") as file:
    found = tomllib.load(file)
dependencies = [each.replace(" ", "") for each in found["project"].pop("dependencies")]
assert sorted(dependencies) == ["click>=8.0", "requests>=2.31", "rich>=13"], dependencies
assert found["project"] == {
    "name": "weather",
    "version": "1.4.0",
    "requires-python": ">=3.10",
    "scripts": {"weather": "weather.main:main"},
}, found
assert found["tool"] == {"other": {"version": "1.3.2"}}
