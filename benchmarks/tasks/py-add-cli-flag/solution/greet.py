import argparse


def main():
    parser = argparse.ArgumentParser(description="Print a greeting.")
    parser.add_argument("name")
    parser.add_argument("--times", type=int, default=1, help="how often to print it")
    parser.add_argument("--upper", action="store_true", help="in capital letters")
    options = parser.parse_args()
    greeting = f"Hello, {options.name}!"
    if options.upper:
        greeting = greeting.upper()
    for _ in range(options.times):
        print(greeting)


if __name__ == "__main__":
    main()
