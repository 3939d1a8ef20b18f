"""A live dashboard: starts a service, sends it events, and draws each release as soon as it is published.

    python3 dashboard.py [--pace SECONDS]

Writes dashboard.live.svg again for every hour, and released.csv at the end. The events are made up.
"""

import argparse
import contextlib
import random
import shutil
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import evertally as et

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "dashboard.toml"
(STREAM,) = tomllib.loads(CONFIG.read_text())["stream"]
START = datetime.fromisoformat(STREAM["start"]).replace(tzinfo=timezone.utc)
HOURS: int = STREAM["steps"]
STATIONS = {"Harbour": 40, "Market": 60, "Campus": 50}  # rentals in a busy hour
COLORS = {"Harbour": "#0072b2", "Market": "#d55e00", "Campus": "#009e73"}


def evertally(*words: str) -> list[str]:
    program = shutil.which("evertally") or sys.exit("there is no program `evertally` on the path")
    return [program, *words, "--config", str(CONFIG)]


def token(role: str) -> str:
    done = subprocess.run(evertally("token", "make", "--role", role), capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else sys.exit(done.stderr.strip())


@contextlib.contextmanager
def service() -> Iterator[tuple[str, str]]:
    """Runs the service: its addresses for readers, and for writers and operators."""
    # Uses the key that `evertally key new` has made. Its ledger refuses another folder once it is used.
    serve = evertally("serve", "--log", "error", "--adopt-key")
    process = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    # Its other messages, such as errors, are shown while it runs.
    copying = threading.Thread(target=sys.stderr.writelines, args=(process.stderr,), daemon=True)
    addresses: list[str] = []
    try:
        while len(addresses) < 2 and (line := process.stderr.readline()):
            if line.startswith(("reading: ", "writing and operating: ")):
                addresses.append(line.split()[-1])
            else:
                print(line, end="", file=sys.stderr)
        if len(addresses) < 2:
            sys.exit("the service has not started")
        print(f"page of the service: {addresses[0]}", flush=True)
        copying.start()
        yield addresses[0], addresses[1]
    finally:
        process.terminate()
        process.wait()
        if copying.is_alive():
            copying.join()


def events(hour: int) -> list[dict[str, str]]:
    """The rentals of an hour, drawn from a fixed seed."""
    draw = random.Random(hour)
    rentals = []
    day, clock = divmod(hour, 24)
    for station, most in STATIONS.items():
        busy = max(0.05, 1 - abs(clock - 16) / 9) * (0.4 if day >= 5 and station == "Campus" else 1)
        for _ in range(int(most * busy * draw.uniform(0.8, 1.2))):
            moment = START + timedelta(hours=hour, seconds=draw.randrange(3600))
            rentals.append({"time": moment.isoformat(), "station": station, "member": f"M{draw.randrange(3000)}"})
    return rentals


def feed(writer: et.ServiceStream, operator: et.ServiceStream, pace: float) -> None:
    """Sends the events hour by hour, and closes each hour."""
    for hour in range(HOURS):
        receipt = writer.push(events(hour), batch=f"hour-{hour}")
        operator.close(hour + 1)
        if not receipt.repeated:  # an earlier run has not sent this batch
            time.sleep(pace)


def draw(reader: et.ServiceStream) -> None:
    """Draws all releases again whenever there is a new one."""
    rows: list[dict[str, Any]] = []
    for publication in reader.watch(after=0):
        rows += publication.rows or []
        write("dashboard.live.svg", picture(rows))
        if publication.publication % 24 == 0:
            values = ", ".join(f"{row['station']} {float(row['value']):.0f}" for row in publication.rows or [])
            print(f"{publication.end[:16]}  {values}", flush=True)
        if publication.publication == HOURS:
            return


def picture(rows: list[dict[str, Any]]) -> str:
    """The released values with their intervals, as SVG."""
    width, height, left, top = 640, 300, 60, 60
    high = 800

    def x(step: int) -> int:
        return left + round(step * width / HOURS)

    def y(value: float) -> int:
        return top + round(height * (1 - value / high))

    parts = ['<text x="60" y="26" font-size="18" font-weight="bold">Rentals of the last 24 hours</text>']
    last = START + timedelta(hours=max((int(row["step"]) for row in rows), default=0))
    parts.append(f'<text x="60" y="46" fill="#555">until {last:%A %H:%M}, with 95 % intervals</text>')
    for level in range(0, high + 1, 200):
        parts.append(f'<path d="M{left} {y(level)}h{width}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y(level) + 4}" text-anchor="end" fill="#555">{level:,}</text>')
    for day in range(HOURS // 24):
        name = f"{START + timedelta(days=day):%a}"
        parts.append(f'<text x="{x(24 * day + 12)}" y="{top + height + 20}" text-anchor="middle">{name}</text>')
    for station, color in COLORS.items():
        mine = [row for row in rows if row["station"] == station]
        if not mine:
            continue
        upper = [f"{x(row['step'])} {y(float(row['upper']))}" for row in mine]
        lower = [f"{x(row['step'])} {y(float(row['lower']))}" for row in reversed(mine)]
        line = [f"{x(row['step'])} {y(float(row['value']))}" for row in mine]
        end = float(mine[-1]["value"])
        parts.append(f'<path d="M{"L".join(upper + lower)}Z" fill="{color}" opacity="0.2"/>')
        parts.append(f'<path d="M{"L".join(line)}" fill="none" stroke="{color}" stroke-width="2"/>')
        label = f"{station} {end:.0f}"
        parts.append(f'<text x="{x(mine[-1]["step"]) + 6}" y="{y(end) + 4}" fill="{color}">{label}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {top + height + 40}" width="800"'
    return f'{head} font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="#fff"/>\n' + (
        "\n".join(parts) + "\n</svg>\n"
    )


def write(name: str, text: str) -> None:
    """Replaces a file at once, so that a browser never reads half of it."""
    new = HERE / f"{name}.new"
    new.write_text(text, encoding="utf-8")
    new.replace(HERE / name)


def main() -> None:
    parser = argparse.ArgumentParser(description="A live dashboard of a service.")
    parser.add_argument("--pace", type=float, default=0.2, help="seconds for each hour of events (default: 0.2)")
    pace = parser.parse_args().pace
    operate, push = token("operate"), token("write:rentals")
    with service() as (reading, writing):
        reader = et.connect(reading).stream("rentals")  # public: it needs no token
        drawing = threading.Thread(target=draw, args=(reader,), daemon=True)
        drawing.start()
        operator = et.connect(writing, token=operate).stream("rentals")
        feed(et.connect(writing, token=push).stream("rentals"), operator, pace)
        drawing.join(30)
        with urllib.request.urlopen(f"{reading}/v1/streams/rentals/releases?format=csv") as answer:
            write("released.csv", answer.read().decode())
    print("wrote dashboard.live.svg and released.csv")


if __name__ == "__main__":
    main()
