from storage import load_records


def names(path):
    return [record["name"] for record in load_records(path)]
