"""Writes requests.jsonl, a made-up access log of a small web site over three weeks.

    python3 make_requests.py > requests.jsonl

Each line is a JSON object, as nginx and Caddy write them. Everything is drawn from one fixed seed, so the file is the
same everywhere. All addresses lie in a network that is reserved for tests (198.18.0.0/15).
"""

import json
import math
import random
from datetime import datetime, timedelta

START = datetime(2026, 3, 2)  # a Monday
DAYS = 21
VISITS_PER_DAY = 900
PAGES = {"/": 30, "/docs": 22, "/download": 12, "/blog": 18, "/pricing": 8, "/login": 6, "/old-wiki": 4}
STATUS = {200: 90, 304: 6, 404: 3, 500: 1}

draw = random.Random(2026)


def address(number: int) -> str:
    return f"198.{18 + number // 65536}.{number // 256 % 256}.{number % 256}"


rows = []
for day in range(DAYS):
    weekend = day % 7 >= 5
    for _ in range(int(VISITS_PER_DAY * (0.6 if weekend else 1))):
        # Some clients return almost every day, most of them once; a few robots read page after page.
        client = int(6000 * draw.random() ** 1.5)
        robot = draw.random() < 0.004
        hour = 14 + 4.5 * draw.gauss(0, 1)
        moment = START + timedelta(days=day, hours=hour % 24, seconds=draw.random() * 60)
        for _ in range(150 if robot else 1 + int(draw.expovariate(0.4))):
            (page,) = draw.choices(list(PAGES), list(PAGES.values()))
            (status,) = draw.choices(list(STATUS), list(STATUS.values()))
            if moment < START + timedelta(days=DAYS):
                rows.append((moment, address(client), page, status))
            moment += timedelta(seconds=2 if robot else 20 + draw.expovariate(1 / 40))
    if day == 15:
        for _ in range(900):  # an article that many people read
            moment = START + timedelta(days=day, hours=9 + draw.expovariate(1 / 4))
            if moment < START + timedelta(days=DAYS):
                rows.append((moment, address(6000 + int(draw.random() * 4000)), "/blog", 200))

rows.sort()
for moment, who, page, status in rows:
    print(json.dumps({"time": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "client": who, "path": page, "status": status}))
