"""What MkDocs calls while it builds the site."""

from __future__ import annotations

from collections.abc import Callable

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website import ROOT
from website.examples_pages import examples_pages
from website.pages import PAIRED, for_mkdocs
from website.plots import with_plots
from website.reference import with_reference

FROM_THE_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md")
_FILLED: tuple[Callable[[str], str], ...] = (with_plots, with_reference)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not files of docs/."""
    made = {name: (ROOT / name).read_text(encoding="utf-8") for name in FROM_THE_ROOT}
    made |= examples_pages(ROOT / "examples")
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of a page, with what is filled in and in the Markdown that MkDocs reads."""
    path = page.file.src_uri
    text = for_mkdocs(markdown, path if page.file.generated_by else f"docs/{path}")
    for fill in _FILLED:
        text = fill(text)
    if PAIRED in text:
        page.meta["hide"] = ["toc"]  # the room that the contents of the page would take is for the second block
    return text
