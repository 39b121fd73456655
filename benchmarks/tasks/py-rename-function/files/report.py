from storage import get_data


def names(path):
    return [record["name"] for record in get_data(path)]
