import storage
from report import names

if __name__ == "__main__":
    print(len(storage.load_records("people.json")), ", ".join(names("people.json")))
