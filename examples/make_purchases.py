"""Writes purchases.csv, made-up purchases of a web shop's first customers over 78 weeks, for docs/reference/windows.md.

    python3 examples/make_purchases.py > purchases.csv

Everything is drawn from one fixed seed, so the file is the same everywhere. No person in it exists. All customers make
their first purchase in the first twelve weeks. Some return hardly ever, others every week, and some never return
after a purchase.
"""

import random
from datetime import datetime, timedelta

CUSTOMERS = 8000
START = datetime(1997, 1, 6)  # a Monday
DAYS = 78 * 7

draw = random.Random(1997)
rows = []
for customer in range(CUSTOMERS):
    day = draw.random() * 84
    rate = draw.gammavariate(0.6, 1 / 30)  # purchases a day
    leaves = draw.betavariate(0.8, 2.5)  # after each of them
    spends = draw.gammavariate(6, 5)
    while day < DAYS:
        dollars = max(3.0, draw.gammavariate(3, spends / 3))
        rows.append((START + timedelta(days=day), customer, f"{dollars:.2f}"))
        if draw.random() < leaves or rate < 1e-6:
            break
        day += draw.expovariate(rate)

rows.sort()
print("time,customer,dollars")
for time, customer, dollars in rows:
    print(f"{time:%Y-%m-%d %H:%M},C{customer:05},{dollars}")
