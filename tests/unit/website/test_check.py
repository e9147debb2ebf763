"""What is wrong with a built site."""

from __future__ import annotations

from pathlib import Path

from website.check import wrong


def site(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        path = folder / (f"{name}/index.html" if name != "index" else "index.html")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.css").touch()
    index = (
        '<link rel="stylesheet" href="a.css"><a href="page/#here">x</a><a href="https://x.org">y</a><a href="#top"></a>'
    )
    page = '<h1 id="here"></h1><a href="..">up</a><a href="../a.css">file</a><script>1</script>'
    assert wrong(site(tmp_path, index=f'<p id="top">{index}</p>', page=page)) == []


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    index = '<a href="gone/">x</a><a href="page/#gone">x</a><a href="page/">x</a>'
    assert wrong(site(tmp_path, index=index, page="<p></p>")) == [": no gone/", ": no page/#gone"]


def test_what_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    index = (
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//fonts.example/f.css">'
        '<link rel="canonical" href="https://docs.example/"><img src="data:image/png;base64,">'
    )
    assert wrong(site(tmp_path, index=index)) == [
        ": loads https://cdn.example/x.js", ": loads //fonts.example/f.css",
    ]  # fmt: skip
