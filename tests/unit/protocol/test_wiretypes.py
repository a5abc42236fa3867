"""Version ranges, and the mapping that everybody shares."""

import copy

import pytest

from ottla.protocol.wiretypes import ALL_VERSIONS, NO_TAGS, NO_VERSIONS, Versions


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("3+", 3, 32767), ("0-7", 0, 7), ("2", 2, 2), ("none", 1, 0), ("0+", 0, 32767)],
)
def test_a_range_is_read_as_written_and_prints_the_same(text, first, last):
    versions = Versions.parse(text)
    assert (versions.first, versions.last) == (first, last)
    assert str(versions) == text


@pytest.mark.parametrize("text", ["", "x", "3-", "-3", "1-2-3", "+", "3 +x"])
def test_other_text_is_no_range(text):
    with pytest.raises(TypeError, match="no version range"):
        Versions.parse(text)


def test_a_range_includes_both_its_ends():
    assert [version for version in range(6) if version in Versions.parse("2-4")] == [2, 3, 4]
    assert list(Versions.parse("2-4")) == [2, 3, 4]
    assert list(NO_VERSIONS) == []


def test_ranges_intersect():
    assert Versions.parse("2+") & Versions.parse("0-5") == Versions.parse("2-5")
    assert Versions.parse("0-1") & Versions.parse("2+") == NO_VERSIONS
    assert ALL_VERSIONS & NO_VERSIONS == NO_VERSIONS


def test_the_shared_empty_tags_cannot_be_written_to():
    for change in (
        lambda: NO_TAGS.__setitem__(1, b""),
        lambda: NO_TAGS.update({1: b""}),
        lambda: NO_TAGS.setdefault(1, b""),
        lambda: NO_TAGS.clear(),
    ):
        with pytest.raises(TypeError, match="shared"):
            change()
    assert NO_TAGS == {}


def test_the_shared_empty_tags_stay_shared_when_copied():
    assert copy.copy(NO_TAGS) is copy.deepcopy(NO_TAGS) is NO_TAGS
    assert hash(NO_TAGS) == 0
    assert NO_TAGS.__reduce__() == "NO_TAGS"
