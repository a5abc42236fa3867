"""The protocol reference follows the declarations."""

from pathlib import Path

from ottla.protocol.apis import APIS, PRIVATE
from ottla.protocol.reference import protocol_markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "protocol.md"


def test_the_page_in_the_repository_is_the_one_the_declarations_give():
    assert PAGE.read_text() == protocol_markdown(), "run `make docs`"


def test_every_api_has_a_row_and_a_section():
    page = protocol_markdown()
    for api in (*APIS.values(), *PRIVATE.values()):
        assert f"| {api.key} | [{api.name}](#{api.name.lower()}) | {api.versions} |" in page
        assert f"\n## {api.name}\n" in page


def test_fields_show_type_versions_tag_and_nesting():
    lines = [" ".join(line.split()) for line in protocol_markdown().splitlines()]
    assert "transactional_id string? v3+" in lines
    assert "replica_state ReplicaState v15+, tag 1" in lines
    assert "protocol_name string? null since v7" in lines
    assert "topics [Topic]? null since v1" in lines
