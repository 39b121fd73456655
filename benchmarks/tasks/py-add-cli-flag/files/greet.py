import argparse


def main():
    parser = argparse.ArgumentParser(description="Print a greeting.")
    parser.add_argument("name")
    parser.add_argument("--times", type=int, default=1, help="how often to print it")
    options = parser.parse_args()
    for _ in range(options.times):
        print(f"Hello, {options.name}!")


if __name__ == "__main__":
    main()
