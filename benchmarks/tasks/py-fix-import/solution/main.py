from greetings import greet
from texts import FAREWELL

if __name__ == "__main__":
    print(greet("Ada"))
    print(FAREWELL)
