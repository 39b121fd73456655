import units

FACTORS = [
    ("metre", "inch", 0.0254),
    ("metre", "foot", 0.3048),
    ("metre", "yard", 0.9144),
    ("metre", "mile", 1609.344),
    ("metre", "fathom", 1.8288),
    ("metre", "league", 4828.032),
    ("kilogram", "ounce", 0.028349523125),
    ("kilogram", "pound", 0.45359237),
    ("kilogram", "stone", 6.35029318),
    ("kilogram", "carat", 0.0002),
    ("kilogram", "grain", 6.479891e-05),
    ("litre", "pint", 0.568),
    ("litre", "gallon", 4.546),
    ("litre", "cup", 0.24),
    ("litre", "barrel", 158.987),
    ("litre", "gill", 0.142),
    ("second", "minute", 60),
    ("second", "hour", 3600),
    ("second", "day", 86400),
    ("second", "week", 604800),
    ("second", "fortnight", 1209600),
    ("watt", "kilowatt", 1000),
    ("watt", "horsepower", 745.7),
    ("watt", "megawatt", 1000000),
    ("watt", "poncelet", 980.665),
]
for base, unit, factor in FACTORS:
    there, back = getattr(units, f"{unit}_to_{base}"), getattr(units, f"{base}_to_{unit}")
    assert abs(there(3) - 3 * factor) < 1e-9 * factor, unit
    assert abs(back(factor) - 1) < 1e-9, unit
    for convert in (there, back):
        try:
            convert(-1)
        except ValueError:
            continue
        raise AssertionError(f"{unit} accepts a negative value")
