"""Writes cases.csv, a made-up line list of an infection in four regions in 2025, as a health office keeps it.

    python3 make_cases.py > cases.csv

Everything is drawn from one fixed seed, so the file is the same everywhere. No person in it exists. As in real line
lists, some cases are reported twice, and some have no region.
"""

import math
import random
from datetime import date, timedelta

REGIONS = {"North": 500, "East": 240, "South": 380, "West": 120}
WEEKS = 52
START = date(2024, 12, 30)  # the Monday of the first calendar week of 2025

draw = random.Random(2025)
rows = []
number = 0
for region, size in REGIONS.items():
    # A wave in winter; the second one begins in the south.
    second = 41 if region == "South" else 45
    for week in range(WEEKS):
        first_wave = math.exp(-(((week - 6) / 4) ** 2))
        second_wave = math.exp(-(((week - second) / 3.5) ** 2))
        expected = size * (0.01 + 0.14 * first_wave + 0.18 * second_wave)
        for _ in range(round(max(0, draw.gauss(expected, math.sqrt(expected))))):
            number += 1
            reported = START + timedelta(days=7 * week + min(4, int(draw.random() * 5.5)))
            age = int(90 * draw.random() ** 0.8)
            place = "" if draw.random() < 0.004 else region
            rows.append((reported, number, place, age))
            if draw.random() < 0.05:  # a second positive test
                rows.append((reported + timedelta(days=1 + int(draw.random() * 20)), number, place, age))

end = START + timedelta(weeks=WEEKS)
rows = sorted(row for row in rows if row[0] < end)
print("reported,person,region,age")
for reported, number, place, age in rows:
    print(f"{reported},P{number:05},{place},{age}")
