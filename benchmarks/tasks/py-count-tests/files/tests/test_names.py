import names


def test_name_ada():
    assert names.clean(' ada ') == 'ada'


def test_name_alan():
    assert names.clean(' alan ') == 'alan'


def test_name_grace():
    assert names.clean(' grace ') == 'grace'


def test_name_edsger():
    assert names.clean(' edsger ') == 'edsger'


def test_name_barbara():
    assert names.clean(' barbara ') == 'barbara'
