"""Nobody can fill our log by being rude."""

from ottla.network.complaints import HOSTS_MAX, QUIET_MS, REASONS_MAX, Complaints


def test_the_same_thing_about_the_same_host_is_said_once_a_minute():
    complaints = Complaints()
    assert complaints.about("a", "too large", 0) == "too large"
    assert complaints.about("a", "too large", QUIET_MS - 1) is None
    assert complaints.about("a", "too late", 1) == "too late"
    assert complaints.about("b", "too large", 1) == "too large"


def test_what_went_unsaid_is_counted_in_the_next_line():
    complaints = Complaints()
    for moment in range(5):
        complaints.about("a", "too large", moment)
    assert complaints.about("a", "too large", QUIET_MS) == "too large (4 more of a went unsaid)"
    assert complaints.about("a", "too large", 2 * QUIET_MS) == "too large"


def test_a_host_that_is_rude_in_many_ways_is_not_quoted_on_all_of_them():
    complaints = Complaints()
    said = [complaints.about("a", f"frame of {size} bytes", 0) for size in range(1000)]
    assert sum(line is not None for line in said) == REASONS_MAX


def test_hosts_are_forgotten_when_there_are_too_many():
    complaints = Complaints()
    for number in range(HOSTS_MAX + 1):
        assert complaints.about(str(number), "too large", number) is not None
    assert len(complaints._hosts) == HOSTS_MAX
    assert complaints.about("0", "too large", HOSTS_MAX + 1) == "too large"
    assert complaints.about(str(HOSTS_MAX), "too large", HOSTS_MAX + 1) is None
