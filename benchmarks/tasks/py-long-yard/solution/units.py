"""Converts units. Every function takes and returns a number."""

# length

def check(value):
    if value < 0:
        raise ValueError("negative")


def inch_to_metre(value):
    """How many metres so many times a inch are."""
    check(value)
    return value * 0.0254


def metre_to_inch(value):
    """How many times a inch so many metres are."""
    check(value)
    return value / 0.0254


def foot_to_metre(value):
    """How many metres so many times a foot are."""
    check(value)
    return value * 0.3048


def metre_to_foot(value):
    """How many times a foot so many metres are."""
    check(value)
    return value / 0.3048


def yard_to_metre(value):
    """How many metres so many times a yard are."""
    check(value)
    return value * 0.9144


def metre_to_yard(value):
    """How many times a yard so many metres are."""
    check(value)
    return value / 0.9144


def mile_to_metre(value):
    """How many metres so many times a mile are."""
    check(value)
    return value * 1609.344


def metre_to_mile(value):
    """How many times a mile so many metres are."""
    check(value)
    return value / 1609.344


def fathom_to_metre(value):
    """How many metres so many times a fathom are."""
    check(value)
    return value * 1.8288


def metre_to_fathom(value):
    """How many times a fathom so many metres are."""
    check(value)
    return value / 1.8288


def league_to_metre(value):
    """How many metres so many times a league are."""
    check(value)
    return value * 4828.032


def metre_to_league(value):
    """How many times a league so many metres are."""
    check(value)
    return value / 4828.032


# mass

def ounce_to_kilogram(value):
    """How many kilograms so many times a ounce are."""
    check(value)
    return value * 0.028349523125


def kilogram_to_ounce(value):
    """How many times a ounce so many kilograms are."""
    check(value)
    return value / 0.028349523125


def pound_to_kilogram(value):
    """How many kilograms so many times a pound are."""
    check(value)
    return value * 0.45359237


def kilogram_to_pound(value):
    """How many times a pound so many kilograms are."""
    check(value)
    return value / 0.45359237


def stone_to_kilogram(value):
    """How many kilograms so many times a stone are."""
    check(value)
    return value * 6.35029318


def kilogram_to_stone(value):
    """How many times a stone so many kilograms are."""
    check(value)
    return value / 6.35029318


def carat_to_kilogram(value):
    """How many kilograms so many times a carat are."""
    check(value)
    return value * 0.0002


def kilogram_to_carat(value):
    """How many times a carat so many kilograms are."""
    check(value)
    return value / 0.0002


def grain_to_kilogram(value):
    """How many kilograms so many times a grain are."""
    check(value)
    return value * 6.479891e-05


def kilogram_to_grain(value):
    """How many times a grain so many kilograms are."""
    check(value)
    return value / 6.479891e-05


# volume

def pint_to_litre(value):
    """How many litres so many times a pint are."""
    check(value)
    return value * 0.568


def litre_to_pint(value):
    """How many times a pint so many litres are."""
    check(value)
    return value / 0.568


def gallon_to_litre(value):
    """How many litres so many times a gallon are."""
    check(value)
    return value * 4.546


def litre_to_gallon(value):
    """How many times a gallon so many litres are."""
    check(value)
    return value / 4.546


def cup_to_litre(value):
    """How many litres so many times a cup are."""
    check(value)
    return value * 0.24


def litre_to_cup(value):
    """How many times a cup so many litres are."""
    check(value)
    return value / 0.24


def barrel_to_litre(value):
    """How many litres so many times a barrel are."""
    check(value)
    return value * 158.987


def litre_to_barrel(value):
    """How many times a barrel so many litres are."""
    check(value)
    return value / 158.987


def gill_to_litre(value):
    """How many litres so many times a gill are."""
    check(value)
    return value * 0.142


def litre_to_gill(value):
    """How many times a gill so many litres are."""
    check(value)
    return value / 0.142


# time

def minute_to_second(value):
    """How many seconds so many times a minute are."""
    check(value)
    return value * 60


def second_to_minute(value):
    """How many times a minute so many seconds are."""
    check(value)
    return value / 60


def hour_to_second(value):
    """How many seconds so many times a hour are."""
    check(value)
    return value * 3600


def second_to_hour(value):
    """How many times a hour so many seconds are."""
    check(value)
    return value / 3600


def day_to_second(value):
    """How many seconds so many times a day are."""
    check(value)
    return value * 86400


def second_to_day(value):
    """How many times a day so many seconds are."""
    check(value)
    return value / 86400


def week_to_second(value):
    """How many seconds so many times a week are."""
    check(value)
    return value * 604800


def second_to_week(value):
    """How many times a week so many seconds are."""
    check(value)
    return value / 604800


def fortnight_to_second(value):
    """How many seconds so many times a fortnight are."""
    check(value)
    return value * 1209600


def second_to_fortnight(value):
    """How many times a fortnight so many seconds are."""
    check(value)
    return value / 1209600


# power

def kilowatt_to_watt(value):
    """How many watts so many times a kilowatt are."""
    check(value)
    return value * 1000


def watt_to_kilowatt(value):
    """How many times a kilowatt so many watts are."""
    check(value)
    return value / 1000


def horsepower_to_watt(value):
    """How many watts so many times a horsepower are."""
    check(value)
    return value * 745.7


def watt_to_horsepower(value):
    """How many times a horsepower so many watts are."""
    check(value)
    return value / 745.7


def megawatt_to_watt(value):
    """How many watts so many times a megawatt are."""
    check(value)
    return value * 1000000


def watt_to_megawatt(value):
    """How many times a megawatt so many watts are."""
    check(value)
    return value / 1000000


def poncelet_to_watt(value):
    """How many watts so many times a poncelet are."""
    check(value)
    return value * 980.665


def watt_to_poncelet(value):
    """How many times a poncelet so many watts are."""
    check(value)
    return value / 980.665
