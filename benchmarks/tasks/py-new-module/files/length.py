def m_to_ft(metres):
    return metres / 0.3048


def ft_to_m(feet):
    return feet * 0.3048
