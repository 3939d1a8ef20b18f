#!/usr/bin/env python3
"""Golden values of the keyed noise, computed from the documentation alone.

BLAKE3 and ChaCha20 are written out from their specifications, the laws from the definitions in their documentation,
in exact rational arithmetic. Prints the lines of golden.txt beside this file.
"""
from fractions import Fraction
from math import isqrt

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
    """The same bytes, each replaced by one of three: equal digits, the rare case, become common."""

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


if __name__ == "__main__":
    main()
