from text_tools import initials, shorten, slugify

assert slugify("Hello, World!") == "hello-world"
assert slugify("  Ten  things ") == "ten-things"
assert slugify("Python 3") == "python-3"
assert slugify("one") == "one"
assert shorten("abcdefgh", 6) == "abc..."
assert initials("ada lovelace") == "AL"
