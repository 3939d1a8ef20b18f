#!/usr/bin/env python3
"""Golden values of the keyed noise, computed from the documentation alone.

BLAKE3 and ChaCha20 are written out from their specifications, the laws from the definitions in their documentation,
in exact rational arithmetic; the logarithms of the laws of counts are mpmath's, to 1000 binary digits. Prints the lines
of golden.txt in this folder.
"""
import math
from fractions import Fraction
from math import isqrt

import mpmath

mpmath.mp.prec = 1000

M32 = 0xFFFFFFFF


def rotr(x, n):
    return (x >> n | x << (32 - n)) & M32


# BLAKE3, keyed mode, inputs of at most one chunk (1024 bytes).
IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]


def compress(cv, words, length, flags):
    v = cv + IV[:4] + [0, 0, length, flags]

    def g(a, b, c, d, x, y):
        v[a] = (v[a] + v[b] + x) & M32
        v[d] = rotr(v[d] ^ v[a], 16)
        v[c] = (v[c] + v[d]) & M32
        v[b] = rotr(v[b] ^ v[c], 12)
        v[a] = (v[a] + v[b] + y) & M32
        v[d] = rotr(v[d] ^ v[a], 8)
        v[c] = (v[c] + v[d]) & M32
        v[b] = rotr(v[b] ^ v[c], 7)

    for _ in range(7):
        for i, abcd in enumerate([(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                                  (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]):
            g(*abcd, words[2 * i], words[2 * i + 1])
        words = [words[p] for p in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def blake3(data, key=None):
    assert len(data) <= 1024
    mode = 0 if key is None else 16
    cv = IV[:] if key is None else [int.from_bytes(key[4 * i:4 * i + 4], "little") for i in range(8)]
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        flags = mode | (1 if i == 0 else 0) | (2 | 8 if i == len(blocks) - 1 else 0)
        padded = block.ljust(64, b"\0")
        words = [int.from_bytes(padded[4 * j:4 * j + 4], "little") for j in range(16)]
        cv = compress(cv, words, len(block), flags)
    return b"".join(w.to_bytes(4, "little") for w in cv)


# ChaCha20, RFC 8439.
def chacha20_block(key, counter, nonce):
    state = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    state += [int.from_bytes(key[4 * i:4 * i + 4], "little") for i in range(8)]
    state += [counter] + [int.from_bytes(nonce[4 * i:4 * i + 4], "little") for i in range(3)]
    x = state[:]

    def q(a, b, c, d):
        for left, right, n in ((d, (a, b), 16), (b, (c, d), 12), (d, (a, b), 8), (b, (c, d), 7)):
            x[right[0]] = (x[right[0]] + x[right[1]]) & M32
            x[left] = rotr(x[left] ^ x[right[0]], 32 - n)

    for _ in range(10):
        for abcd in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                     (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            q(*abcd)
    return b"".join(((a + b) & M32).to_bytes(4, "little") for a, b in zip(x, state))


def derive(key, *fields):
    return blake3(b"".join(len(f).to_bytes(8, "little") + f for f in fields), key)


class Bits:
    def __init__(self, subkey, level, index):
        self.key, self.nonce = subkey, level.to_bytes(4, "little") + index.to_bytes(8, "little")
        self.counter, self.buffer = 0, b""

    def take(self, n):
        while len(self.buffer) < n:
            self.buffer += chacha20_block(self.key, self.counter, self.nonce)
            self.counter += 1
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def word(self, n):
        return int.from_bytes(self.take(n), "little")


class CoarseBits(Bits):
    """The same bytes, each replaced by one of three: equal digits, otherwise rare, become common."""

    def take(self, n):
        return bytes([0x00, 0x80, 0xFF][b % 3] for b in super().take(n))


class Lazy:
    """A uniform number: 16 binary digits, then 64 at a time."""

    def __init__(self, bits):
        self.bits, self.digits = bits, [Fraction(bits.word(2), 1 << 16)]

    def interval(self, n):
        """The first n digits: the number is in [low, low + width)."""
        while len(self.digits) < n:
            done = 16 + 64 * (len(self.digits) - 1)
            self.digits.append(Fraction(self.bits.word(8), 1 << (done + 64)))
        return sum(self.digits[:n]), Fraction(1, 1 << (16 + 64 * (n - 1)))

    def less(self, other):
        n = 1
        while True:
            # The other number's digits are drawn first.
            theirs, width = other.interval(n) if isinstance(other, Lazy) else (other, 0)
            ours, width = self.interval(n)
            if isinstance(other, Lazy):
                if ours != theirs:
                    return ours < theirs
            elif ours + width <= theirs:
                return True
            elif ours >= theirs:
                return False
            n += 1


def run_is_even(start, bits):
    even, last = True, start
    while True:
        following = Lazy(bits)
        if not following.less(last):
            return even
        even, last = not even, following


def exp_coin(gamma, bits):
    whole = gamma.numerator // gamma.denominator
    for _ in range(whole):
        if run_is_even(Lazy(bits), bits):
            return False
    first = Lazy(bits)
    return not (first.less(gamma - whole) and run_is_even(first, bits))


def geometric(scale, bits):
    whole = 0
    while True:
        u = Lazy(bits)
        if run_is_even(u, bits):
            break
        whole += 1
    n = len(u.digits)
    while True:
        low, width = u.interval(n)
        # floor of numerator * U must be certain; the largest value is not attained.
        a, b = low * scale.numerator, (low + width) * scale.numerator
        if a // 1 == -(-b // 1) - 1:
            return (whole * scale.numerator + a // 1) // scale.denominator
        n += 1


def signed(size, bits):
    negative = bits.word(1) & 1
    return None if negative and size == 0 else -size if negative else size


def laplace(scale, bits):
    while True:
        x = signed(geometric(scale, bits), bits)
        if x is not None:
            return x


def gaussian(variance, bits):
    t = max(1, (isqrt(4 * variance.numerator // variance.denominator) + 1) // 2)
    while True:
        size = geometric(Fraction(t), bits)
        x = signed(size, bits)
        if x is not None and exp_coin((size - variance / t) ** 2 / (2 * variance), bits):
            return x


def uniform_below(n, bits):
    """floor(n U), 64 bits at a time; above 2^64 masked 128-bit words."""
    if n > 1 << 64:
        while True:
            x = bits.word(16) & ((1 << (n - 1).bit_length()) - 1)
            if x < n:
                return x
    digits, length = 0, 0
    while True:
        digits, length = digits << 64 | bits.word(8), length + 64
        low, last = digits * n >> length, ((digits + 1) * n - 1) >> length
        if low == last:
            return low


def count(bits, end, mode, tied, v, c, fall, log_ratio):
    """A log-concave law on 0 .. end; log_ratio(k) = ln p(mode) - ln p(k)."""
    w = max(v, c * c, 1.0)
    wide = w / (math.sqrt(w + c) - 0.5 * (1.0 + c)) * (1.0 + 1.0 / 256.0)
    steep = 1.0 if fall >= 0.64 else 1.0 / fall * (1.0 + 1e-9) if fall > 0 else math.inf
    lifted = not (mode == 0 and steep < 1.6 * wide)
    scale = math.ceil(wide if lifted else steep)
    shift = max(0, scale.bit_length() - 62)
    scale = (scale >> shift) + (shift > 0)
    while True:
        size = geometric(Fraction(scale), bits)
        if shift:
            size = size << shift | bits.word(8) >> (64 - shift)
        x = size if mode == 0 else signed(size, bits)
        if x is None or not 0 <= mode + x <= end:
            continue
        gamma = Fraction(int(lifted), 2) - Fraction(size >> shift, scale)
        if size and not (tied and x == -1):
            gamma += Fraction(*log_ratio(mode + x).as_integer_ratio())
        assert gamma >= 0
        if gamma == 0 or exp_coin(gamma, bits):
            return mode + x


def log_factorials(*pairs):
    """The sum of ln(a!/b!)."""
    return sum(mpmath.loggamma(a + 1) - mpmath.loggamma(b + 1) for a, b in pairs)


def poisson(mean, bits):
    m, part = divmod(mean.numerator, mean.denominator)
    fall = float(mean.denominator - part) / float(mean.denominator)
    slope = mpmath.log(mpmath.mpf(mean.numerator) / mean.denominator)
    return count(bits, 1 << 127, m, part == 0, float(m), 1.0, fall, lambda k: log_factorials((k, m)) - (k - m) * slope)


def binomial(n, near, far, bits):
    a, b = min(near, far), max(near, far)
    m, rest = divmod((n + 1) * a, a + b)
    v = float(m) * (float(n - m) / float(n)) if n else 0.0
    slope = mpmath.log(mpmath.mpf(a) / b)
    k = count(bits, n, m, rest == 0, v, 1.0, float(b - n * a) / float(b) if m == 0 else 0.0,
              lambda k: log_factorials((k, m), (n - k, n - m)) - (k - m) * slope)
    return n - k if near > far else k


def negative_binomial(shape, scale, bits):
    if shape == 1:
        return geometric(scale, bits)
    rate = mpmath.mpf(scale.denominator) / scale.numerator
    m = int((shape - 1) / mpmath.expm1(rate))
    c = (float(m) + float(shape)) / float(shape - 1)
    fall = 1.0 - float(shape * mpmath.exp(-rate)) * (1.0 + 1e-9)
    further = shape - 1
    return count(bits, 1 << 127, m, False, (float(m) + 1.0) * c, c, fall,
                 lambda k: log_factorials((k, m), (m + further, k + further)) + (k - m) * rate)


def polya(n, near, far, bits):
    a, b = min(near, far) - 1, max(near, far) - 1
    if b == 0:
        return uniform_below(n + 1, bits)
    m, rest = divmod((n + 1) * a, a + b) if n else (0, 0)

    def part(m, further):
        c = (float(m) + float(further) + 1.0) / float(further)
        return (float(m) + 1.0) * c, c

    vb, cb = part(n - m, b)
    v, c = vb, 0.0
    if a:
        va, ca = part(m, a)
        v, c = va / (va + vb) * vb, max(ca * (vb / (va + vb)), cb * (va / (va + vb)))
    fall = float(b - n * a) / (float(n) + float(b)) if m == 0 else 0.0
    k = count(bits, n, m, rest == 0 and m > 0, v, c, fall,
              lambda k: log_factorials((k, m), (m + a, k + a), (n - k, n - m), (n - m + b, n - k + b)))
    return n - k if near > far else k


def main():
    assert blake3(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    key = blake3(b"evertally 1 insecure test key\0" + (42).to_bytes(8, "little"))
    name, digest = "visits – Zürich".encode(), bytes(range(32))
    print("key", key.hex())
    print("id", derive(key, b"evertally 1 key id")[:16].hex())
    purposes = {"total": (0, b""), "group": (1, b"north"), "state": (2, b""), "ledger": (3, b"")}
    subkeys = {}
    for label, (tag, data) in purposes.items():
        subkeys[label] = derive(key, b"evertally 1 subkey", name, digest, bytes([tag]), data)
        mac = derive(key, b"evertally 1 mac", name, digest, bytes([tag]), data)
        print("bits", label, Bits(subkeys[label], 3, 5 << 33).take(192).hex())
        print("mac", label, mac.hex())
    nodes = [(0, 0), (0, 1), (1, 0), (7, 12345678901234567890), (2**32 - 1, 2**64 - 1)] + [(2, i) for i in range(11)]

    def rows(law, parameter, draw):
        for label, source in ("", Bits), ("coarse-", CoarseBits):
            print(label + law, parameter, *(draw(source(subkeys["total"], *node)) for node in nodes))

    for text in ["1", "6", "1000003", "18446744073709551615", "18446744073709551616", "18446744073709551617",
                 "340282366920938463463374607431768211455"]:
        rows("uniform", text, lambda bits: uniform_below(int(text), bits))
    for text in ["0", "1/1000", "1/3", "1/2", "1", "7/2", "123456789012345678901/100000000000000000000"]:
        rows("coin", text, lambda bits: int(exp_coin(Fraction(text), bits)))
    for text in ["1/10000", "1/3", "1", "5/2", "100", "65536", "65537", "1000000", "1234567890123456789/1000000007",
                 "1000000000000000000", "1267650600228229401496703205376"]:
        rows("geometric", text, lambda bits: geometric(Fraction(text), bits))
        rows("laplace", text, lambda bits: laplace(Fraction(text), bits))
    for text in ["1/10000", "1/10", "1", "7/3", "100", "1000000", "123456789012345678901/1000000007",
                 "1000000000000000000", "340282366920938463463374607431768211455"]:
        rows("gaussian", text, lambda bits: gaussian(Fraction(text), bits))
    for text in ["1/10", "99/100", "1", "4", "15/2", "1000", "1000000000000000", "123456789012345678901234567/1000",
                 "1329227995784915872903807060280344576"]:
        rows("poisson", text, lambda bits: poisson(Fraction(text), bits))
    for text in ["0,1,1", "1,2,1", "7,1,1", "20,1,2", "20,1,100", "1000,5,2", "1000000000000000,1,2",
                 "5316911983139663491615228241121378304,3,4"]:
        rows("binomial", text, lambda bits: binomial(*map(int, text.split(",")), bits))
    for text in ["1,5/2", "2,1/3", "2,10", "5,1/10", "20,1", "20,1000", "4096,22/7", "100,1000000000"]:
        shape, scale = text.split(",")
        rows("negative-binomial", text, lambda bits: negative_binomial(int(shape), Fraction(scale), bits))
    for text in ["0,1,2", "9,1,1", "7,2,2", "10,2,3", "30,5,1", "20000,10,10", "1000000000000,1,4096",
                 "1208925819614629174706176,9,5", "332306998946228968225951765070086144,2,2"]:
        rows("polya", text, lambda bits: polya(*map(int, text.split(",")), bits))


if __name__ == "__main__":
    main()
