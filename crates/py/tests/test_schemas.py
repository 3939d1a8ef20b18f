"""Reports, plans, tables and deployment records of the program have the form of the schemas in docs/schemas."""

import datetime
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest

import evertally as et

from conftest import REPOSITORY

SCHEMAS = REPOSITORY / "docs/schemas/0.1"
DAYS = "--start 2024-01-01 --every 1d"
ALL = f"{DAYS} --steps 20 --all"
PERSON = "--person visitor --max-events 40"
SHARED = (
    "--person visitor --group-by door --groups n,s,w --per 1d --max-events-per-group 1 --max-groups 3 "
    "--correlate-groups "
)
FEE = "--value fee --bounds 0,40"
JOINING = f"{DAYS} --steps 20 --rho 0.5 --continue --group-by door --unknown-group skip"
#: Commands of the program without files and names; together they have every field of a report.
COMMANDS = {
    "pure": f"release {ALL} --epsilon 1",
    "zcdp": f"release {ALL} --rho 0.5 {PERSON}",
    "approximate": f"release {ALL} --epsilon 1 --delta 1e-6 {PERSON} --max-events-per-step 1",
    "groups": f"release {ALL} --rho 0.5 {PERSON} --group-by door --groups n,s --rest other --max-events-per-step 2 "
    "--max-groups 2 --max-events-per-group 10 --min-gap 2",
    "scales": f"release {ALL} --epsilon 1 {FEE} --grid 0.5 --group-by door --groups n,s,w --scales 1,2,3",
    "windows": f"release {ALL} --rho 0.5 {PERSON} --workload window(7d) --per 1mo",
    "workloads": f"release {ALL} --epsilon 1 --delta 1e-9 --workload window(7d) --workload sum",
    "published": f"release {ALL} --rho 0.5 --workload increments --publish 5d",
    "means": f"release {ALL} --rho 0.5 {PERSON} {FEE} --measure mean --measure count --measure std",
    "quantiles": f"release {ALL} --epsilon 1 {FEE} --measure quantile(0.5)*2 --measure count",
    "people": f"release {ALL} --rho 0.5 {PERSON} {FEE} --measure distinct(7d) --measure histogram(10,20)",
    "endless": f"release {DAYS} --unbounded --through 2024-01-21 --rho 0.5",
    "discovered": f"release {ALL} --rho 0.5 --person visitor --max-events 6 --max-groups 2 --per 1w --group-by door "
    "--discover-groups --selection-delta 1e-6 --floor 3",
    "late": f"release {DAYS} --steps 400 --through 2024-01-21 --rho 0.5 {PERSON} --neighbours replace-one",
    "views": f"release {ALL} --rho 0.5 --view whole-number --view non-negative --band simultaneous",
    "asserted": f"release {ALL} --rho 0.5 --assert-max-events 40 --asserted-by museum",
    "any-week": f"release {ALL} --rho 0.5 {PERSON} --per 1w --protect-window 7d",
    "shared": f"release {ALL} --rho 0.5 {SHARED} groups",
    "shared-people": f"release {ALL} --rho 0.5 {SHARED} groups --measure distinct",
    "not-shared": f"release {ALL} --rho 0.5 {SHARED} total",
    "filtered": f"release {ALL} --rho 0.5 --where fee>3",
    "sketch": f"sketch {ALL} --rho 0.5 --key-columns visitor --candidates candidates.csv --top 3",
    "first": f"release {DAYS} --steps 10 --outside skip --rho 0.5 --continue --through 2024-01-11",
    "next": f"release {DAYS} --steps 10 --outside skip --rho 0.5 --continue --through 2024-01-21 --extend",
    "joining": f"release {JOINING} --groups n --through 2024-01-11",
    "joined": f"release {JOINING} --groups n,s --through 2024-01-21",
}
#: Commands that continue the stream of another one, and replace its report.
LATER = {"next": "first", "joined": "joining"}
STATED = """
curator = ["Office of \\"Doors\\"", "Museum"]
author = ["A. Author"]
intended-use = "Planning of staff."
region = "Denmark"
published = "2024-02-01"
sector = "government"
release-type = "many"
data-source = "dynamic"
actors = "- The museum is trusted.\\n- Readers are not."
preprocessing = "None."
justification = "One person visits at most 40 times."
sources = "None."
"""


def schema(name: str) -> Any:
    """A schema."""
    made = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(made)
    assert made["$id"] == f"urn:evertally:schema:0.1:{name}"
    return made


def check(made: Any, instance: object) -> None:
    validator = jsonschema.Draft202012Validator(made, format_checker=jsonschema.FormatChecker())
    problems = [f"{'.'.join(map(str, e.path))}: {e.message}" for e in validator.iter_errors(instance)]
    assert not problems, problems


def paths(value: object, path: str = "") -> set[str]:
    """The paths of all fields of a document."""
    if isinstance(value, dict):
        inside = (paths(own, f"{path}/{name}") for name, own in value.items())
        return {f"{path}/{name}" for name in value}.union(*inside)
    return set[str]().union(*(paths(own, path) for own in value)) if isinstance(value, list) else set()


def declared(made: dict[str, Any], path: str = "") -> set[str]:
    """The paths of all fields that a schema knows."""
    inside = [declared(other, path) for other in [*made.get("anyOf", []), *made.get("oneOf", [])]]
    inside += [declared(made["items"], path)] if "items" in made else []
    for name, own in made.get("properties", {}).items():
        inside.append({f"{path}/{name}"} | declared(own, f"{path}/{name}"))
    return set[str]().union(*inside)


@pytest.fixture(scope="module")
def folder(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the releases of all commands, as JSON lines; one of them also as Parquet."""
    folder = tmp_path_factory.mktemp("releases")
    rows = ["time,door,visitor,fee"]
    for day in range(20):
        date = datetime.date(2024, 1, 1) + datetime.timedelta(days=day)
        rows += [f"{date}T08:{n:02}:00Z,{'nsw'[n % 3]},{n % 17},{(n * 7 + day) % 40}" for n in range(30)]
    (folder / "events.csv").write_text("\n".join(rows))
    (folder / "candidates.csv").write_text("visitor\n1\n2\n3\n4\n")

    def run(*arguments: str) -> None:
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, (arguments, done.stderr)

    run("key", "new", "my.key")
    for name, command in COMMANDS.items():
        stream = LATER.get(name, name)
        kind, *rest = command.split()
        files = f"events.csv --key my.key --no-plot --quiet --stream {stream} --out {stream}.jsonl".split()
        run(kind, *files, *rest)
        if name in LATER.values():
            for ending in ["report.json", "plan.toml"]:
                (folder / f"{name}.{ending}").rename(folder / f"kept-{name}.{ending}")
        if name in {"views", "means"}:
            run(kind, *files[:-1], f"{name}-columns.parquet", *rest)
    return folder


def reports(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.report.json"))
    assert len(found) == len(COMMANDS) + 2
    return found


def test_reports_have_their_schema(folder: Path) -> None:
    made, seen = schema("report"), set[str]()
    for path in reports(folder):
        report = json.loads(path.read_text())
        check(made, report)
        seen |= paths(report)
    # No example has all policies.
    seen = {path for path in seen if not path.startswith("/policies/")}
    assert declared(made) == seen, "fields that no example has"


def test_plans_have_their_schema(folder: Path) -> None:
    made, seen = schema("plan"), set[str]()
    for path in folder.glob("*.plan.toml"):
        plan = tomllib.loads(path.read_text())
        assert plan["meaning"].keys() <= made["properties"]["meaning"]["properties"].keys()
        check(made, plan)
        seen |= paths(plan)
    for other in (et.plan(10, rho=0.5), et.plan(10, epsilon=1.0, delta=1e-6, max_events=5)):
        check(made, json.loads(other.to_json()))
        seen |= paths(json.loads(other.to_json()))
    assert {path for path in declared(made) - seen if not path.startswith("/meaning/")} == set()


def test_vector_plans_have_their_schema() -> None:
    made, train = schema("vector-plan"), et.training
    zcdp: list[dict[str, Any]] = [
        {},
        {"learning_rate": 0.1, "momentum": 0.9, "participations": 4, "separation": 5},
        {"learning_rate": 0.1, "schedule": "cosine", "warmup": 5},
        {"learning_rate": [0.1] * 20},
        {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True, "average_decay": 0.9},
        {"learning_rate": 0.1, "average_steps": 5, "counted_steps": 1},
    ]
    plans = [train.plan_vector(20, rho=0.5, mechanism="input", **options) for options in zcdp]
    sampled: list[dict[str, Any]] = [
        {"sampling": "poisson", "sampled_fraction": 0.1},
        {"sampling": "random-allocation", "steps_per_epoch": 5},
        {"sampling": "per-epoch-random-allocation", "steps_per_epoch": 5},
        {"sampling": "fixed-size", "sampled_fraction": 0.1, "neighbours": "replace-one"},
        {"sampling": "truncated-poisson", "sampled_fraction": 0.1, "examples": 500},
    ]
    for options in sampled:
        plans.append(train.plan_vector(20, epsilon=2.0, delta=1e-6, mechanism="input", **options))
    seen = set[str]()
    for plan in plans:
        check(made, json.loads(plan.to_json()))
        seen |= paths(json.loads(plan.to_json()))
    assert declared(made) == seen, "fields that no example has"


def test_tables_have_their_schema(folder: Path) -> None:
    made = schema("table")
    for path in folder.glob("*.jsonl"):
        report = json.loads(path.with_suffix(".report.json").read_text())
        sides = [report.get("groups"), report.get("selection"), report.get("sketch")]
        labels = {name for side in sides if side for name in [*side.get("columns", []), *side.get("key_columns", [])]}
        for line in path.read_text().splitlines():
            row = json.loads(line)
            check(made, row)
            assert row.keys() - made["properties"].keys() == labels
    for path in folder.glob("*.parquet"):
        for field in pq.read_schema(path):
            kind = str(field.type).replace("UTC", "ZONE")
            assert kind in made["properties"][field.name]["x-parquet"], field


def record(program: str, folder: Path, *arguments: str) -> tuple[Any, str]:
    command = [program, "deployment-record", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_records_have_their_schema(program: str, folder: Path) -> None:
    made, seen, variants = schema("deployment-record"), set[str](), set[str]()
    (folder / "stated.toml").write_text(STATED)
    for path in reports(folder):
        bare, missing = record(program, folder, path.name)
        assert bare["tier"] == 1 and "required by the registry: --curator, --intended-use, --region" in missing
        full, missing = record(program, folder, path.name, "--config", "stated.toml", "--notes", "None.")
        assert full["tier"] == 3 and missing == ""
        for own in (bare, full):
            check(made, own)
            seen |= paths(own)
        report, parameters = json.loads(path.read_text()), full["deployment"]["privacy_loss"]["privacy_parameters"]
        variant = full["deployment"]["dp_variant"]["variant_name"]
        variants.add(variant)
        match variant:
            case "Pure DP":
                assert parameters == {"epsilon": report["guarantee"]["pure_epsilon"]}
            case "Approximate DP":
                assert parameters == {"epsilon": report["budget"]["epsilon"], "delta": report["budget"]["delta"]}
            case "Zero-concentrated DP":
                assert parameters == {"rho": report["guarantee"]["rho"]}
            case _:
                assert parameters == {"rho": report["guarantee"]["rho"], "delta": report["selection"]["delta"]}
    assert declared(made) == seen, "fields that no example has"
    fields = made["properties"]["deployment"]["properties"]["dp_variant"]["properties"]
    assert variants == set(fields["variant_name"]["enum"])
    assert full["url_slug"] == f"{Path(path.stem).stem}-office-of-doors-museum-2024"


def test_a_record_is_made_from_a_table_or_standard_input(program: str, folder: Path) -> None:
    own = record(program, folder, "zcdp.report.json", "--curator", "Museum")
    assert own == record(program, folder, "zcdp.jsonl", "--curator", "Museum")
    command = [program, "deployment-record", "-", "--curator", "Museum"]
    given = (folder / "zcdp.report.json").read_text()
    piped = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    assert json.loads(piped.stdout) == own[0]


def test_other_files_are_refused(program: str, folder: Path) -> None:
    later = json.loads((folder / "zcdp.report.json").read_text()) | {"version": 2}
    (folder / "later.json").write_text(json.dumps(later))
    (folder / "other.json").write_text('{"version": 1}')
    (folder / "wrong.toml").write_text('regoin = "Denmark"')
    for arguments, problem in [
        (["none.csv"], "cannot read the report none.report.json"),
        (["later.json"], "the report has version 2, and this program reads version 1"),
        (["other.json"], "other.json: this is not a report (missing field"),
        (["zcdp.jsonl", "--published", "1.2.2024"], "published: `1.2.2024` is not a date; write it as YYYY-MM-DD"),
        (["zcdp.jsonl", "--config", "wrong.toml"], "unknown field `regoin`"),
    ]:
        done = subprocess.run([program, "deployment-record", *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 2 and problem in done.stderr, done.stderr
