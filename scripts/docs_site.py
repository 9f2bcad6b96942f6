"""mkdocs hooks that the documentation site needs in addition to mkdocs.yml.

README.md, CONTRIBUTING.md and CHANGELOG.md become pages. Links to files of the repository that the
site does not have become their paths. The build fails where a page would load something from
another host when it is viewed.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from os.path import relpath
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ADDED = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site that lie in the root of the repository."""
FENCE = re.compile(r"(^```.*?^```)", flags=re.M | re.S)
LINK = re.compile(r"(?<!!)\[([^]]*)\]\(([^)#\s:]+)(#[^)\s]+)?\)")
PICTURE = re.compile(r"!\[([^]]*)\]\(([^)\s:]+)\)")
METHODS_HERE = "<!-- table of methods -->"
LOADED = {"src", "srcset", "poster", "data"}
LOADING_LINKS = {"stylesheet", "icon", "preconnect", "preload", "prefetch", "dns-prefetch"}
IN_STYLES = re.compile(r"(?:@import\s+|url\()\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie in the root."""
    for page, source in ADDED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make links right for where the page is, and fill in what is generated."""
    here = page.file.src_uri
    source = ROOT / ADDED[here] if here in ADDED else DOCS / here
    if METHODS_HERE in markdown:
        markdown = markdown.replace(METHODS_HERE, methods_table())
    parts = FENCE.split(markdown)  # every second one is code
    parts[::2] = [moved(part, source.parent, (DOCS / here).parent) for part in parts[::2]]
    return "".join(parts)


def moved(text: str, source: Path, page: Path) -> str:
    """Text of a file in the folder ``source`` with links for a page in the folder ``page``."""

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        path = (source / target).resolve()
        address = site_address(path, page)
        if address is not None:
            named = words.endswith(".md")  # a page by its file: say its title
            return f"[{title_of(path) if named else words}]({address}{anchor})"
        name = path.relative_to(ROOT).as_posix()
        said = words.strip("`").rstrip("/")
        return f"`{name}`" if name.endswith(said) else f"{words} (`{name}`)"

    def picture(found: re.Match[str]) -> str:
        return f"![{found[1]}]({site_address((source / found[2]).resolve(), page)})"

    return PICTURE.sub(picture, LINK.sub(link, text))


def site_address(path: Path, page: Path) -> str | None:
    """Where a file of the repository is for a page, if the site has it."""
    for name, source in ADDED.items():
        if path == ROOT / source:
            path = DOCS / name
    return relpath(path, page) if path.is_relative_to(DOCS) and path != DOCS else None


def title_of(path: Path) -> str:
    """The first heading of a Markdown file."""
    heading = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), flags=re.M)
    return heading[1] if heading else path.stem


def methods_table() -> str:
    """The registry as Markdown."""
    from densirank.methods import METHODS

    lines = ["| method | model | risk | n̄ | |", "| --- | --- | --- | ---: | --- |"]
    for method in METHODS.values():
        cells = [f"`{method.name}`", method.model, method.risk or "", method.max_norm or ""]
        lines.append(f"| {' | '.join(map(str, cells))} | {method.summary} |")
    return "\n".join(lines)


class Loads(HTMLParser):
    """Addresses on other hosts that a browser loads with a page; those of hyperlinks are not."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        values = [value or "" for name, value in attrs if name in LOADED]
        if tag == "link" and LOADING_LINKS & set((given.get("rel") or "").split()):
            values.append(given.get("href") or "")
        self.found += [value for value in values if re.match(r"\s*(https?:)?//", value)]
        self.found += IN_STYLES.findall(given.get("style") or "")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.found += IN_STYLES.findall(data)


def loaded_from_elsewhere(site: Path) -> dict[str, list[str]]:
    """What the pages and styles of a site load from other hosts, by file."""
    found: dict[str, list[str]] = {}
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            reader = Loads()
            reader.feed(path.read_text(encoding="utf-8"))
            found[str(path.relative_to(site))] = reader.found
        elif path.suffix == ".css":
            text = path.read_text(encoding="utf-8")
            found[str(path.relative_to(site))] = IN_STYLES.findall(text)
    return {name: addresses for name, addresses in found.items() if addresses}


def on_post_build(config: Any) -> None:
    """Fail where a page needs another host to be viewed."""
    found = loaded_from_elsewhere(Path(config["site_dir"]))
    if found:
        raise PluginError(f"pages load files from other hosts: {found}")
