"""Expands, factors and integrates by SymPy."""

import sympy

x, y = sympy.symbols("x y")
for power in range(6, 13):
    expanded = sympy.expand((x + 2 * y + 3) ** power * (x**2 - y) ** (power - 4))
    print(power, len(expanded.args), sympy.factor(expanded).func.__name__)
print(sympy.integrate(x**3 * sympy.exp(-x) * sympy.sin(x), x).count_ops())
