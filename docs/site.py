"""The source of the site: documents at their places, with every file that they link to.

    python3 docs/site.py source   write target/site
    python3 docs/site.py links    find dead links in the built pages
"""

import pathlib
import re
import shutil
import sys
import tomllib
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parent.parent
SITE = ROOT / "target/site"
LINK = re.compile(r"\]\(<?([^)\s>#]+)")
BOOK = """[book]
title = "evertally"
language = "en"
src = "src"

[build]
create-missing = false

[output.html]
smart-punctuation = false
default-theme = "light"
preferred-dark-theme = "navy"
"""


def copy(path, done):
    """Copies a file, and the files that a document links to."""
    path = path.resolve()
    if path in done or not path.is_file():
        return
    done.add(path)
    place = SITE / "src" / path.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place)
    if path.suffix == ".md":
        for target in LINK.findall(path.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                copy(path.parent / target, done)


def source():
    """Writes the book's source: the tree of documents, so that relative links stay as they are."""
    shutil.rmtree(SITE / "src", ignore_errors=True)
    done = set()
    copy(ROOT / "docs/SUMMARY.md", done)
    (SITE / "src/docs/SUMMARY.md").unlink()
    summary = (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8")
    placed = re.sub(r"\]\((?!\.\./)", "](docs/", summary).replace("](../", "](")
    listed = set(re.findall(r"\]\(([^)]+)\)", placed))
    others = sorted(path.relative_to(ROOT).as_posix() for path in done if path.suffix == ".md")
    rest = [name for name in others if name not in listed and name != "docs/SUMMARY.md"]
    more = "".join(f"- [{title(ROOT / name)}]({name})\n" for name in rest)
    (SITE / "src/SUMMARY.md").write_text(f"{placed}\n# More\n\n{more}", encoding="utf-8")
    (SITE / "book.toml").write_text(BOOK, encoding="utf-8")
    tomllib.loads(BOOK)


def title(path):
    """The first heading of a page."""
    return re.search(r"^# (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)[1].replace("`", "")


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif value and (name, tag) in {("href", "a"), ("src", "img"), ("src", "script"), ("href", "link")}:
                self.links.add(value)


def links():
    """Dead links of the built pages, apart from those between pages of the references."""
    book = SITE / "book"
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in book.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        in_reference = path.relative_to(book).parts[0] in {"rust", "python-reference"}
        if in_reference or path.name in {"print.html", "404.html"}:
            continue
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = pages.get(target)
            if not target.exists() or (parts.fragment and known and unquote(parts.fragment) not in known.anchors):
                dead.append(f"{path.relative_to(book)}: {link}")
    print(*dead, sep="\n", end="\n" if dead else "")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit({"source": source, "links": links}[sys.argv[1]]())
