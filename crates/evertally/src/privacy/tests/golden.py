#!/usr/bin/env python3
"""Golden values of the budget conversions, from the definitions, with mpmath at 400 digits.

Prints the lines of golden.txt next to this file. Needs mpmath.
"""
from itertools import product

import mpmath as mp
from mpmath import mpf

mp.mp.dps = 400
EPSILONS = ["1e-6", "1e-3", "0.1", "1", "3", "10", "50"]
DELTAS = ["1e-2", "1e-6", "1e-12", "1e-100", "1e-300"]


def show(value):
    return mp.nstr(value, 19)


def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gaussian_delta(mu, eps):
    """Balle and Wang 2018, theorem 8."""
    return phi(mu / 2 - eps / mu) - mp.e**eps * phi(-mu / 2 - eps / mu)


def bisect(holds, low, high):
    """The largest argument at which a falling condition holds, on a logarithmic scale."""
    low, high = mp.log(low), mp.log(high)
    for _ in range(75):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(mp.e**middle) else (low, middle)
    return mp.e**low


def zcdp_epsilon(rho, delta):
    """Canonne, Kamath and Steinke 2020, corollary 13: least over the orders a > 1, by the root of the derivative.

    f(a) = a rho + (ln 1/delta - ln a)/(a-1) + ln(1-1/a), f'(a) = rho - (ln 1/delta - ln a)/(a-1)^2.
    """
    log = -mp.log(delta)
    low, high = mpf(-80), mpf(80)
    for _ in range(90):
        middle = (low + high) / 2
        b = mp.e**middle
        if rho - (log - mp.log(1 + b)) / b**2 < 0:
            low = middle
        else:
            high = middle
    b = mp.e**low
    return max(mpf(0), rho * (1 + b) + (log - mp.log(1 + b)) / b + mp.log(b / (1 + b)))


def laplace_atoms(scale, shift):
    """Loss times scale, and probability."""
    q = mp.e ** (-1 / scale)
    atoms = {shift: 1 / (1 + q), -shift: q**shift / (1 + q)}
    for x in range(1, shift):
        atoms[shift - 2 * x] = (1 - q) / (1 + q) * q**x
    return atoms


def gaussian_atoms(variance, shift, reach):
    """Loss times 2 variance, and probability."""
    weights = {x: mp.e ** (-mpf(x * x) / (2 * variance)) for x in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {shift * (shift - 2 * x): w / total for x, w in weights.items()}


def curve(parts, unit, eps):
    """The hockey-stick divergence of independent variables."""
    joint = {0: mpf(1)}
    for atoms in parts:
        nexts = {}
        for (a, p), (b, r) in product(joint.items(), atoms.items()):
            nexts[a + b] = nexts.get(a + b, 0) + p * r
        joint = nexts
    return sum(p * (1 - mp.e ** (eps - a / unit)) for a, p in joint.items() if a / unit > eps)


for eps in EPSILONS:
    for mu in ["1e-7", "1e-4", "0.01", "0.3", "1", "5", "12"]:
        delta = gaussian_delta(mpf(mu), mpf(eps))
        if delta > mpf("1e-305"):
            print("gaussian", mu, eps, show(delta))
    for delta in DELTAS:
        mu = bisect(lambda m: gaussian_delta(m, mpf(eps)) <= mpf(delta), mpf("1e-12"), mpf(100))
        print("mu", eps, delta, show(mu))
        rho = bisect(lambda r: zcdp_epsilon(r, mpf(delta)) <= mpf(eps), mpf("1e-30"), mpf(1000))
        print("rho", eps, delta, show(rho))

mp.mp.dps = 330
LAPLACE = [("10", [(1, 4)]), ("20", [(1, 20)]), ("3/2", [(1, 30)]), ("500", [(1, 400)]), ("7", [(5, 3), (2, 2)]),
           ("100", [(40, 6)]), ("1/3", [(1, 2), (3, 1)]), ("300", [(700, 3)])]
for scale, shifts in LAPLACE:
    n, d = (int(part) for part in (scale + "/1").split("/")[:2])
    unit = mpf(n) / d
    parts = [laplace_atoms(unit, shift) for shift, count in shifts for _ in range(count)]
    pure = sum(shift * count for shift, count in shifts) / unit
    named = ",".join(f"{shift}x{count}" for shift, count in shifts)
    for share in ["1e-3", "0.1", "0.4", "0.7", "0.9", "0.99"]:
        eps = mpf(mp.nstr(pure * mpf(share), 6))
        print("laplace", scale, named, mp.nstr(eps, 6), show(curve(parts, unit, eps)))

GAUSSIAN = [("1/2", [(1, 1)], 40), ("4", [(1, 1)], 90), ("9", [(1, 5)], 100), ("25", [(3, 2), (1, 3)], 120),
            ("900", [(1, 2)], 900), ("100", [(17, 1)], 500)]
for variance, shifts, reach in GAUSSIAN:
    n, d = (int(part) for part in (variance + "/1").split("/")[:2])
    value = mpf(n) / d
    mp.mp.dps = 60 if reach > 200 else 330
    parts = [gaussian_atoms(value, shift, reach) for shift, count in shifts for _ in range(count)]
    named = ",".join(f"{shift}x{count}" for shift, count in shifts)
    norm = mp.sqrt(sum(shift * shift * count for shift, count in shifts) / value)
    for deviations in ["0.01", "1", "3", "6"]:
        eps = mpf(mp.nstr(norm * (norm / 2 + mpf(deviations)), 6))
        print("discrete", variance, named, mp.nstr(eps, 6), show(curve(parts, 2 * value, eps)))
