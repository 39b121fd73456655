def read(path):
    """Enough YAML for this file: nested mappings of plain values."""
    tree, stack = {}, [(-1, None)]
    stack = [(-1, tree)]
    for line in open(path, encoding="utf-8").read().splitlines():
        text = line.split(" #")[0].rstrip()
        if not text.strip() or text.strip().startswith("#"):
            continue
        indent = len(text) - len(text.lstrip())
        key, _, value = text.strip().partition(":")
        while stack[-1][0] >= indent:
            stack.pop()
        value = value.strip().strip("\"'")
        stack[-1][1][key] = value or {}
        if not value:
            stack.append((indent, stack[-1][1][key]))
    return tree


assert read("deploy.yaml") == {
    "name": "shop",
    "services": {
        "web": {"image": "shop/web:1.8", "replicas": "5", "port": "8000"},
        "worker": {"image": "shop/worker:1.8", "replicas": "2"},
    },
}, read("deploy.yaml")
