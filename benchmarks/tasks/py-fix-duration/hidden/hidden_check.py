from durations import format_duration, parse_duration

assert format_duration(3661) == "1:01:01"
assert format_duration(0) == "0:00:00"
assert format_duration(36000 + 59) == "10:00:59"
assert format_duration(754) == "0:12:34"
assert parse_duration("1:01:01") == 3661
