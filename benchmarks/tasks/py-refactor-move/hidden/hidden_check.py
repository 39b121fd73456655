import ast

import app
import formatting

assert formatting.format_price(5) == "0.05 EUR"
assert formatting.format_price(1234) == "12.34 EUR"
assert app.label("tea") == "tea: 4.50 EUR"
assert app.PRICES == {"tea": 450, "milk": 120}
tree = ast.parse(open("app.py", encoding="utf-8").read())
assert "format_price" not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
assert "formatting" in open("app.py", encoding="utf-8").read()
