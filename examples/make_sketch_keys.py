#!/usr/bin/env python3
"""Creates flights-sketch-keys.csv, the candidates of flights-sketch.toml, from flights-sample.csv alone.

    python3 make_sketch_keys.py

Each aircraft of the sample (the first 200 flights of the year) gets three keys: the destination of its first flight,
from each of the three airports. It may never have flown about two thirds of these routes. The list stands for one that
was public before the data, such as a fleet register and a timetable; nothing in it depends on the year's data.
"""

import csv
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def main():
    destinations = {}
    with open(HERE / "flights-sample.csv", newline="", encoding="utf-8") as sample:
        for row in csv.DictReader(sample):
            if row["aircraft"]:
                destinations.setdefault(row["aircraft"], row["destination"])
    with open(HERE / "flights-sketch-keys.csv", "w", newline="", encoding="utf-8") as out:
        keys = csv.writer(out, lineterminator="\n")
        keys.writerow(["aircraft", "origin", "destination"])
        for aircraft, destination in sorted(destinations.items()):
            keys.writerows([aircraft, origin, destination] for origin in ("EWR", "JFK", "LGA"))


if __name__ == "__main__":
    main()
