"""The source of the site: documents at their places, with every file that they link to.

    python3 docs/site.py source   write target/site
    python3 docs/site.py links    find dead links in the built pages
"""

import pathlib
import re
import shutil
import sys
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
no-section-label = true
additional-css = ["site.css"]
"""
STYLE = ":root { --content-max-width: 920px; }\n"
REFERENCES = """# API references

- [Rust: `evertally`](rust/evertally/index.html), the library; module `manual` explains units, keys, states and errors
- [Rust: `evertally_training`](rust/evertally_training/index.html), noise for private training
- [Rust: all crates](rust/evertally_publish/index.html): choose another in the list at the left
- [Python: `evertally`](python-reference/evertally.html)
"""


def copy(path, done):
    """Copies a file, and the files that a document links to."""
    path = path.resolve()
    if path in done or not path.is_file():
        return
    done.add(path)
    place = SITE / "src" / in_book(path.relative_to(ROOT).as_posix())
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".md":
        text = path.read_text(encoding="utf-8")
        place.write_text(LINK.sub(lambda link: in_book(link[0]), text), encoding="utf-8")
        for target in LINK.findall(text):
            if not re.match(r"[a-z]+:", target):
                copy(path.parent / target, done)
    else:
        shutil.copyfile(path, place)


def in_book(name):
    """The name in the book: mdBook publishes README.md as index.html, but leaves links to it as they are."""
    return re.sub(r"\bREADME\.md$", "index.md", name)


def source():
    """Writes the book's source: the tree of documents, so that relative links stay as they are."""
    shutil.rmtree(SITE / "src", ignore_errors=True)
    done = set()
    copy(ROOT / "docs/SUMMARY.md", done)
    (SITE / "src/docs/SUMMARY.md").unlink()
    summary = (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8")
    placed = re.sub(r"\]\((?!\.\./)", "](docs/", summary).replace("](../", "](")
    listed = set(re.findall(r"\]\(([^)]+)\)", placed)) | {"docs/SUMMARY.md"}
    placed = LINK.sub(lambda link: in_book(link[0]), placed)
    others = sorted(path.relative_to(ROOT).as_posix() for path in done if path.suffix == ".md")
    rest = [name for name in others if name not in listed]
    (SITE / "src/references.md").write_text(REFERENCES, encoding="utf-8")
    placed = placed.replace("# Reference\n\n", "# Reference\n\n- [API references](references.md)\n")
    more = "".join(f"- [{title(ROOT / name)}]({in_book(name)})\n" for name in rest)
    (SITE / "src/SUMMARY.md").write_text(f"{placed}\n# More\n\n{more}", encoding="utf-8")
    (SITE / "book.toml").write_text(BOOK, encoding="utf-8")
    (SITE / "site.css").write_text(STYLE, encoding="utf-8")


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
