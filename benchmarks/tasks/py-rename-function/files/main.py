import storage
from report import names

if __name__ == "__main__":
    print(len(storage.get_data("people.json")), ", ".join(names("people.json")))
