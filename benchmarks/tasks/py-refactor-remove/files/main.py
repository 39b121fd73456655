from totals import rounded_total, total

if __name__ == "__main__":
    print(total([1.5, 2.25]), rounded_total([1.5, 2.25]))
