"""Looks over a built site, `python -m website.check FOLDER`: links lead somewhere, nothing is loaded from elsewhere.

`mkdocs build --strict` knows the links of Markdown; this sees those of themes, docstrings and plots too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

HOME = "https://site.example/"
"""Stands for wherever the site is put."""
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser loads by itself, and the attribute that says from where."""


@dataclass
class PageLinks(HTMLParser):
    """What a page has: targets of links, what it loads, names that can be linked to."""

    links: list[str] = field(default_factory=list[str])
    loaded: list[str] = field(default_factory=list[str])
    names: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.names.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and _LOADED[tag] in given and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(given[_LOADED[tag]])


def wrong(folder: Path) -> list[str]:
    """What is wrong with the site in a folder, a line for each link."""
    pages: dict[str, PageLinks] = {}
    for file in sorted(folder.rglob("*.html")):
        address = file.relative_to(folder).as_posix().removesuffix("index.html")
        pages[address] = PageLinks()
        pages[address].feed(file.read_text(encoding="utf-8"))
    found: list[str] = []
    for address, page in pages.items():
        if address == "404.html":  # it is shown under any address: its links begin at the root
            continue
        for link in page.loaded:
            if not urljoin(HOME + address, link).startswith(HOME) and not link.startswith("data:"):
                found.append(f"{address}: loads {link}")
        found += [f"{address}: no {link}" for link in page.links if not _leads_somewhere(link, address, pages, folder)]
    return found


def _leads_somewhere(link: str, address: str, pages: dict[str, PageLinks], folder: Path) -> bool:
    target, name = urldefrag(urljoin(HOME + address, link))
    if not target.startswith(HOME):
        return target.startswith(("https://", "mailto:"))
    path = unquote(target.removeprefix(HOME)).removesuffix("index.html")
    if path in pages:
        return not name or unquote(name) in pages[path].names
    return (folder / path).is_file()


def main() -> int:
    """Prints what is wrong; the exit code is 1 if something is."""
    lines = wrong(Path(sys.argv[1]))
    print("\n".join(lines) if lines else "all links lead somewhere, and nothing is loaded from elsewhere")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
