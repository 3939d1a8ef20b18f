#!/usr/bin/env python3
"""Makes `src/normal/tables.rs`: the polynomials of the normal quantile function, segment by segment; and, for tests
alone, `src/normal/quantiles.rs`: exact quantiles.

Run it from any folder; it needs only `mpmath`, writes the files and prints the accuracy of the polynomials:

    python3 crates/kernels/tables/normal.py

Segments. A word of B bits (32 or 64) is a sign and a magnitude w of B - 1 bits, and its tail probability is
p = (w + 1/2) / 2^B. Let l be the number of leading zeros of w in B - 1 bits (l <= 14, others are rare) and v in
[1/2, 1) the rest, w = v 2^(B-1-l). Row l holds v < 3/4 with the offset u = 4 (v - 1/2) in [0, 1); row 16 + l holds
v >= 3/4 with the offset u = 4 (v - 1) in [-1, 0). Both offsets are counted from a power of two, the end they share with
the next octave.

Polynomials are least-squares fits at Chebyshev nodes, which is within a small factor of the best. Their coefficients
are rounded one after another, and the remaining ones are fitted again to compensate for the rounding. The rounding of
the constant is not compensated: it is the quantile at the power of two itself, where neighbouring octaves meet, and
compensating over a short interval would disturb the density. So the fit lets it fade linearly to the other end.
"""

import pathlib
import statistics
import struct
import textwrap

import mpmath as mp

mp.mp.dps = 60
OCTAVES = 15
NODES = 40
WIDTH = 120


def quantile(p):
    """x with P(Z > x) = p, by Newton's method from double precision."""
    x = mp.mpf(-statistics.NormalDist().inv_cdf(float(p)))
    for _ in range(4):
        x += (mp.erfc(x / mp.sqrt(2)) / 2 - p) / mp.npdf(x)
    return x


class Precision:
    def __init__(self, name, bits, degree, offset_bits, code):
        self.name, self.bits, self.degree, self.code = name, bits, degree, code
        # Words of one offset: 2^-offset_bits is its last bit.
        self.offset_bits = offset_bits

    def round(self, x):
        """The nearest number of this precision, as a double."""
        significant = {"f": 24, "d": 53}[self.code]
        with mp.workprec(significant):
            return float(+x)

    def literal(self, value):
        """The shortest decimal that reads back as `value`."""
        for digits in range(1, 18):
            text = f"{value:.{digits}g}"
            if struct.pack(self.code, float(text)) == struct.pack(self.code, value):
                return text if any(c in text for c in ".e") else text + ".0"
        raise AssertionError(value)

    def probability(self, zeros, half, u):
        """p at the middle of the words with offset u. The lowest bit of u is worth at least one word."""
        v = mp.mpf(u) / 4 + (1 if half else mp.mpf(1) / 2)
        words = mp.mpf(2) ** (self.bits - 1 - zeros)
        cell = max(mp.mpf(1), words * mp.mpf(2) ** -self.offset_bits / 4)
        return (v * words + cell / 2) / mp.mpf(2) ** self.bits

    def segment(self, zeros, half):
        sign = -1 if half else 1
        us = [sign * (1 + mp.cos(mp.pi * (2 * i + 1) / (2 * NODES))) / 2 for i in range(NODES)]
        xs = [quantile(self.probability(zeros, half, u)) for u in us]
        end = quantile(self.probability(zeros, half, 0))
        fixed = [self.round(end)]
        # The rounding error of the constant fades linearly.
        targets = [x + (fixed[0] - end) * (1 - abs(u)) for u, x in zip(us, xs)]
        while len(fixed) <= self.degree:
            powers = range(len(fixed), self.degree + 1)
            rest = [x - mp.polyval(fixed[::-1], u) for u, x in zip(us, targets)]
            matrix = mp.matrix([[u**k for k in powers] for u in us])
            solution = mp.lu_solve(matrix.T * matrix, matrix.T * mp.matrix(rest))
            fixed.append(self.round(solution[0]))
        error = max(abs(mp.polyval(fixed[::-1], u) - x) for u, x in zip(us, xs))
        # dx/du of the exact quantile is -(dp/du) / density.
        slope = [k * c for k, c in enumerate(fixed)][1:]
        dp = mp.mpf(2) ** (-zeros - 1) / 4
        density = max(abs(mp.polyval(slope[::-1], u) * mp.npdf(x) / -dp - 1) for u, x in zip(us, xs))
        return fixed, error, density

    def table(self):
        lines = []
        width = -(-(self.degree + 1) // 4) * 4
        worst = worst_density = 0
        for half in (0, 1):
            for zeros in range(16):
                if zeros < OCTAVES:
                    coefficients, error, density = self.segment(zeros, half)
                    worst, worst_density = max(worst, error), max(worst_density, density)
                else:
                    coefficients = []
                coefficients += [0.0] * (width - len(coefficients))
                lines += row([self.literal(c) for c in coefficients])
        print(f"{self.name}: degree {self.degree}, error {mp.nstr(worst, 3)}, density {mp.nstr(worst_density, 3)}")
        head = [
            f"/// The degree of the polynomials for {self.name}.",
            f"pub(super) const {self.name.upper()}_DEGREE: usize = {self.degree};",
            "",
            "/// Their coefficients, the constant first, then zeros to a round size.",
            "#[rustfmt::skip]",
            f"pub(super) const {self.name.upper()}: [[{self.name}; {width}]; 32] = [",
        ]
        return head + lines + ["];"]


def row(literals):
    """The lines of an array of numbers: one, or more if they do not fit."""
    numbers = ", ".join(literals)
    if len(line := f"    [{numbers}],") <= WIDTH:
        return [line]
    indent = " " * 8
    lines = textwrap.wrap(f"{numbers},", WIDTH - len(indent), break_on_hyphens=False)
    return ["    [", *(indent + line for line in lines), "    ],"]


def tails():
    """Quantiles of rare words: (words + (bits + 1/2) / 2^128) / 2^exponent."""
    lines = [
        "/// (words, bits, exponent) and the x beyond which a normal variable has the probability",
        "/// (words + (bits + 1/2) / 2^128) / 2^exponent.",
        "#[rustfmt::skip]",
        "pub(super) const TAILS: &[(u64, u128, i32, f64)] = &[",
    ]
    full = 2**128 - 1
    for exponent, top in ((32, 2**16), (64, 2**48)):
        smallest = [(0, 0), (0, 1), (0, 1 << 40), (0, 1 << 100), (0, full)]
        for words, bits in [*smallest, (1, 0), (1, full), (12345, 1 << 127), (top - 1, full)]:
            p = (words + (bits + mp.mpf(1) / 2) / mp.mpf(2) ** 128) / mp.mpf(2) ** exponent
            lines.append(f"    ({words}, {bits:#x}, {exponent}, {float(quantile(p))!r}),")
    return lines + ["];"]


def middles():
    """Quantiles of the words in the middle and at both ends of a few segments."""
    lines = [
        "/// The magnitude of a word of 64 bits and its normal.",
        "#[rustfmt::skip]",
        "pub(super) const MIDDLES: &[(u64, f64)] = &[",
    ]
    for zeros in (0, 1, 4, 9, 14):
        for eighths in (8, 9, 11, 12, 13, 15):
            magnitude = eighths << (59 - zeros)
            p = (magnitude + mp.mpf(1) / 2) / mp.mpf(2) ** 64
            lines.append(f"    ({magnitude:#x}, {float(quantile(p))!r}),")
    return lines + ["];"]


def write(name, title, lines):
    path = pathlib.Path(__file__).resolve().parent.parent / "src" / "normal" / name
    title = f"{title} Made by `tables/normal.py`; do not edit."
    head = textwrap.wrap(title, WIDTH, initial_indent="//! ", subsequent_indent="//! ")
    path.write_text("\n".join([*head, "", *lines]) + "\n")


def main():
    polynomials = Precision("f32", 32, 6, 31, "f").table() + [""] + Precision("f64", 64, 10, 51, "d").table()
    title = "Polynomials of the normal quantile function; row l + 16 h is for octave l, half h."
    write("tables.rs", title, polynomials)
    write("quantiles.rs", "Exact quantiles to test against.", tails() + [""] + middles())


if __name__ == "__main__":
    main()
