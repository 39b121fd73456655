from calendar_tools import days_in_month, days_in_year, is_leap

assert not is_leap(1900)
assert not is_leap(2100)
assert is_leap(2000)
assert is_leap(2024)
assert not is_leap(2023)
assert days_in_month(1900, 2) == 28
assert days_in_month(2024, 2) == 29
assert days_in_month(2023, 12) == 31
assert days_in_year(2000) == 366
