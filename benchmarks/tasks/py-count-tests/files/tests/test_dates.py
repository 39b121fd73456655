import dates


def test_january():
    assert dates.month('january') == 1


def test_february():
    assert dates.month('february') == 2


def test_march():
    assert dates.month('march') == 3


def test_april():
    assert dates.month('april') == 4


def test_may():
    assert dates.month('may') == 5


def test_june():
    assert dates.month('june') == 6


def check_order():
    pass
