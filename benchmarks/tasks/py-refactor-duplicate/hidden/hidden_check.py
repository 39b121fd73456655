import ast

import billing

for amount in (0, 100, 500, 501, 600, 1000, 1001, 2000):
    expected = amount * 0.9 if amount > 1000 else amount * 0.95 if amount > 500 else amount
    assert abs(billing.apply_discount(amount) - expected) < 0.01, amount
    assert billing.invoice_total([amount]) == round(expected, 2)
    assert billing.quote_total([amount], 7.5) == round(expected + 7.5, 2)
functions = {node.name: node for node in ast.parse(open("billing.py", encoding="utf-8").read()).body if isinstance(node, ast.FunctionDef)}
for name in ("invoice_total", "quote_total"):
    words = {node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
    assert "apply_discount" in words, name
    assert not any(isinstance(node, ast.If) for node in ast.walk(functions[name])), name
