import sys

from calendar_tools import days_in_year

if __name__ == "__main__":
    print(days_in_year(int(sys.argv[1])))
