from temperature import c_to_f, f_to_c
from length import ft_to_m

assert abs(c_to_f(100) - 212) < 1e-9
assert abs(c_to_f(-40) + 40) < 1e-9
assert abs(f_to_c(32)) < 1e-9
assert abs(f_to_c(c_to_f(36.6)) - 36.6) < 1e-9
assert ft_to_m(10) == 3.048
