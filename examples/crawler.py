"""Crawler: a queue of work that answers when it has something.

The crawlers ask the frontier for the next page and wait; the frontier may have none at the moment,
although others are about to find some. So `next_page` has an explicit response port: the method
returns at once, and the port is kept and answered later, when there is a page or when all is done.
Meanwhile the frontier handles other messages.

The site is a directory of HTML files, read from disk; there is no network. Without an argument a
small one is made and removed again.

Run it: python examples/crawler.py [DIRECTORY_WITH_AN_INDEX.HTML]
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import deque
from pathlib import Path

from danaus.actor import Actor, Port, endpoint, this_host

CRAWLERS = 3
PAGES = 200

LINK = re.compile(r'href="([^"#:]+)"')


class Frontier(Actor):
    """Pages that are to be visited, each once."""

    def __init__(self, first: str) -> None:
        self.seen = {first}
        self.todo = deque([first])
        self.unfinished = 1  # pages that were found and not yet reported on
        self.waiting: deque[Port[str | None]] = deque()

    @endpoint(explicit_response_port=True)
    def next_page(self, port: Port[str | None]) -> None:
        """Answers with a page, or with None when there will be no more."""
        self.waiting.append(port)
        self.answer()

    @endpoint
    def visited(self, links: list[str]) -> None:
        """A page was read and has these links."""
        new = set(links) - self.seen
        self.seen |= new
        self.todo.extend(sorted(new))
        self.unfinished += len(new) - 1
        self.answer()

    @endpoint
    def count(self) -> int:
        return len(self.seen)

    def answer(self) -> None:
        while self.waiting and self.todo:
            self.waiting.popleft().send(self.todo.popleft())
        while self.waiting and not self.unfinished:
            self.waiting.popleft().send(None)


class Crawler(Actor):
    """Reads pages until there are no more."""

    def __init__(self, site: Path, frontier: Frontier) -> None:
        self.site = site
        self.frontier = frontier

    @endpoint
    def crawl(self) -> int:
        pages = 0
        while page := self.frontier.next_page.call_one().get():
            self.frontier.visited.broadcast(self.links(page))
            pages += 1
        return pages

    def links(self, page: str) -> list[str]:
        file = self.site / page
        found = LINK.findall(file.read_text(encoding="utf-8"))
        targets = [(file.parent / link).resolve() for link in found]
        return [str(t.relative_to(self.site)) for t in targets if t.is_file()]


def make_site(directory: Path) -> None:
    """Write pages that link to each other; all can be reached from index.html."""
    for number in range(PAGES):
        links = [3 * number + 1, 3 * number + 2, 3 * number + 3, number * number % PAGES]
        hrefs = "\n".join(f'<a href="{_file(n)}">page {n}</a>' for n in links if n < PAGES)
        directory.joinpath(_file(number)).write_text(f"<h1>Page {number}</h1>\n{hrefs}\n")


def _file(number: int) -> str:
    return f"page{number}.html" if number else "index.html"


def crawl(site: Path) -> None:
    host = this_host()
    frontier = host.spawn_procs(name="frontier").spawn("frontier", Frontier, "index.html")
    procs = host.spawn_procs(per_host={"crawlers": CRAWLERS}, name="crawlers")
    crawlers = procs.spawn("crawlers", Crawler, site, frontier)

    read = list(crawlers.crawl.call().get().values())
    print(f"{frontier.count.call_one().get()} pages were found, and {sum(read)} read")
    print("pages by crawler:", read)


def main() -> None:
    if len(sys.argv) > 1:
        crawl(Path(sys.argv[1]).resolve())
        return
    with tempfile.TemporaryDirectory() as directory:
        site = Path(directory).resolve()
        make_site(site)
        crawl(site)


if __name__ == "__main__":
    main()
