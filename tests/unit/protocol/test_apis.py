"""The table of APIs, and that looking at it imports nothing."""

import subprocess
import sys

import pytest

from ottla.core.errors import ProtocolError
from ottla.protocol.apis import APIS, PRIVATE, api_named, api_of

SPOKEN = [*range(52), 55, 56, 57, 60, 61, *range(64, 70), 71, 72, *range(74, 80), 90, 91, 92]


def test_every_api_of_a_broker_is_there():
    assert list(APIS) == SPOKEN


def test_apis_of_our_own_are_far_from_kafkas_and_found_as_these_are():
    assert min(PRIVATE) >= 10_000 and max(PRIVATE) < 2**15
    assert api_of(20000) is api_named("compact-topics") is PRIVATE[20000]


@pytest.mark.parametrize("api", [*APIS.values(), *PRIVATE.values()], ids=lambda api: api.name)
def test_request_and_response_agree_about_key_and_versions(api):
    assert api.request.api_key == api.response.api_key == api.key
    assert api.request.versions == api.response.versions == api.versions
    assert api.request.flexible == api.response.flexible == api.flexible
    assert api.request.__doc__


def test_an_unknown_key_is_the_peers_mistake():
    with pytest.raises(ProtocolError, match="no API has the key 4711"):
        api_of(4711)
    assert api_of(3).name == "Metadata"


@pytest.mark.parametrize("name", ["ListOffsets", "listoffsets", "list-offsets", "list_offsets", "2"])
def test_apis_are_found_as_people_type_them(name):
    assert api_named(name) is APIS[2]


def test_a_name_nobody_has_finds_nothing():
    assert api_named("nonsense") is None


def test_message_modules_are_imported_at_first_use():
    script = (
        "import sys; from ottla.protocol.apis import APIS\n"
        "loaded = lambda: sorted(m for m in sys.modules if m.startswith('ottla.protocol.messages.'))\n"
        "assert loaded() == [], loaded()\n"
        "APIS[0].request\n"
        "assert loaded() == ['ottla.protocol.messages.produce'], loaded()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
