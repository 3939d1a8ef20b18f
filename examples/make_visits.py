"""Writes visits.csv, made-up visits to three swimming halls in 2024, for docs/guide/publish/tutorial.md.

    python3 examples/make_visits.py > visits.csv

Everything is drawn from one fixed seed, so the file is the same everywhere. No person in it exists. As in real files,
a few visits have no member and a few are out of order.
"""

import math
import random
from datetime import datetime, timedelta

HALLS = ("North", "Harbour", "Park")
MEMBERS = 4000
VISITS = 40_000

draw = random.Random(2024)
# Members swim from hardly ever to every other day, usually in the same hall.
keenness = [draw.random() ** 3 for _ in range(MEMBERS)]
total, steps = 0.0, []
for share in keenness:
    total += share
    steps.append(total)


def member() -> int:
    """A random member, weighted by keenness."""
    point, low, high = draw.random() * total, 0, MEMBERS - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if steps[middle] < point else (low, middle)
    return low


rows = []
for _ in range(VISITS):
    # Fewer visits in summer, more at the end of the year.
    while True:
        day = int(draw.random() * 366)
        if draw.random() < 0.75 + 0.25 * math.cos(2 * math.pi * day / 366):
            break
    minute = 6 * 60 + int((draw.random() + draw.random()) * 7.5 * 60)  # from 6:00 to 21:00
    who = member()
    hall = HALLS[who % 3] if draw.random() < 0.8 else HALLS[int(draw.random() * 3)]
    rows.append((datetime(2024, 1, 1) + timedelta(days=day, minutes=minute), who, hall, 20 + int(draw.random() * 100)))

rows.sort()
for place in range(0, len(rows) - 40, 997):  # the desk enters some visits later
    rows.insert(place + 30, rows.pop(place))
print("time,member,hall,minutes")
for number, (time, who, hall, minutes) in enumerate(rows):
    name = "" if number % 2500 == 1700 else f"M{who:04d}"  # a ticket without a name
    print(f"{time:%Y-%m-%d %H:%M},{name},{hall},{minutes}")
