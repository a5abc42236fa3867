"""The documentation says what the code says."""

import re
from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.core.errors import ErrorCode
from ottla.protocol.apis import APIS
from ottla.storage.config import TopicConfig
from tests.docs import INTERNALS, PAGES, REFERENCE, SOURCES, redrawn

ROOT = Path(__file__).parent.parent
WRITTEN = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "STYLE.md", "CHANGELOG.md")]
PROSE = sorted([*WRITTEN, *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_fresh(name):
    assert (REFERENCE / name).read_text() == PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("name", SOURCES)
def test_a_generated_module_is_fresh(name):
    assert (ROOT / name).read_text() == SOURCES[name](), "run `make docs`"


def test_every_page_of_the_reference_is_generated():
    assert {str(path.relative_to(REFERENCE)) for path in REFERENCE.rglob("*.md")} == PAGES.keys()


@pytest.mark.parametrize("path", sorted(INTERNALS.glob("*.md")), ids=lambda path: path.stem)
def test_a_picture_shows_the_table_it_is_drawn_from(path):
    assert path.read_text() == redrawn(path.read_text()), "run `make docs`"


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_excerpt_is_in_the_file_it_is_from(path):
    for name, excerpt in re.findall(r"<!-- from (\S+) -->\n```\n(.*?)\n```\n", path.read_text(), re.DOTALL):
        blocks = (ROOT / name).read_text().rstrip("\n").split("\n\n")
        for block in excerpt.split("\n\n"):
            assert block in blocks, f"{path.name} shows what is not in {name}: {block}"


def test_every_error_code_key_and_api_is_in_the_reference():
    errors = (REFERENCE / "errors.md").read_text()
    assert [code.name for code in ErrorCode if code.name not in errors] == []
    keys = (REFERENCE / "configuration.md").read_text()
    assert [name for name in [*BrokerConfig.keys, *TopicConfig.keys] if name not in keys] == []
    apis = (REFERENCE / "protocol.md").read_text()
    assert [api.name for api in _apis() if api.name not in apis] == []


def _apis():
    return APIS.values() if isinstance(APIS, dict) else APIS


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(path):
    for name in re.findall(r"`((?:ottla|tests|bench|docs)/[\w./-]+\.(?:py|md|txt))`", path.read_text()):
        assert (ROOT / name).exists(), f"{path.name} speaks of {name}"
