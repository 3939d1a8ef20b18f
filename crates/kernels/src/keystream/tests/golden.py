"""Independent reference for the frozen words of `tests.rs`: prints its rows. Standard library only."""

import struct

KEY = bytes(3 * i + 1 for i in range(32))
LEVEL, INDEX = 5, 0x0123456789ABCDEF
FAR = (1 << 40) + 254
COORDINATE = 1_000_003


def name(level, counter):
    return (INDEX | counter << 64 | level << 120).to_bytes(16, "little")


# AES-128 as FIPS 197 writes it: bytes of GF(2^8), states of 16 bytes by columns.


def times(a, b):
    product = 0
    while b:
        product ^= a * (b & 1)
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def substitute(a):
    inverse = next((b for b in range(256) if times(a, b) == 1), 0)
    turned = [(inverse << k | inverse >> 8 - k) & 0xFF for k in range(5)]
    return turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63


S_BOX = [substitute(a) for a in range(256)]


def round_keys(key):
    words, constant = [list(key[4 * i : 4 * i + 4]) for i in range(4)], 1
    for i in range(4, 44):
        word = words[i - 1]
        if i % 4 == 0:
            word = [S_BOX[b] for b in word[1:] + word[:1]]
            word[0] ^= constant
            constant = times(constant, 2)
        words.append([a ^ b for a, b in zip(words[i - 4], word)])
    return [sum(words[4 * r : 4 * r + 4], []) for r in range(11)]


def mix(column):
    factors = (2, 3, 1, 1)
    products = [[times(column[j], factors[(j - i) % 4]) for j in range(4)] for i in range(4)]
    return [p[0] ^ p[1] ^ p[2] ^ p[3] for p in products]


def aes(key, block):
    keys = round_keys(key)
    state = [a ^ b for a, b in zip(block, keys[0])]
    for number in range(1, 11):
        state = [S_BOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < 10:
            state = sum((mix(state[4 * c : 4 * c + 4]) for c in range(4)), [])
        state = [a ^ b for a, b in zip(state, keys[number])]
    return struct.unpack("<4I", bytes(state))


def chacha(key, block, rounds):
    """Words 12 and 13 are the upper half of the name, 14 and 15 the lower."""
    start = list(struct.unpack("<12I", b"expand 32-byte k" + key) + struct.unpack("<4I", block[8:] + block[:8]))
    x = start[:]
    for number in range(rounds):
        turn = number % 2
        for i in range(4):
            a, b, c, d = i, 4 + (i + turn) % 4, 8 + (i + 2 * turn) % 4, 12 + (i + 3 * turn) % 4
            for p, q, r, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = (x[p] + x[q]) % 2**32
                x[r] ^= x[p]
                x[r] = (x[r] << bits | x[r] >> 32 - bits) % 2**32
    return [(a + b) % 2**32 for a, b in zip(x, start)]


def blocks(cipher):
    if cipher == "Aes128Ctr":
        return lambda level, counter: aes(KEY[:16], name(level, counter))
    return lambda level, counter: chacha(KEY, name(level, counter), int(cipher[6:]))


def word(cipher, w):
    if cipher == "Aes128Ctr":
        counter, place = w // 4, w % 4
    else:
        counter, place = w // 256 * 16 + w % 16, w % 256 // 16
    return blocks(cipher)(LEVEL, counter)[place]


for cipher in ("Aes128Ctr", "ChaCha8", "ChaCha20"):
    first, far = ([word(cipher, start + i) for i in range(4)] for start in (0, FAR))
    tail = blocks(cipher)(LEVEL | 0x80, COORDINATE)[:4]
    words = ["[" + ", ".join(f"0x{w >> 16:04x}_{w & 0xFFFF:04x}" for w in four) + "]" for four in (first, far)]
    digits = f"{sum(w << 32 * i for i, w in enumerate(tail)):032x}"
    number = "0x" + "_".join(digits[i : i + 4] for i in range(0, 32, 4))
    print(f"(Cipher::{cipher}, {words[0]}, {words[1]}, {number}),")
