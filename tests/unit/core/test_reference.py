from pathlib import Path

from ottla.core.config import Bytes, Config, Key, Password, Scope, at_least
from ottla.core.errors import ErrorCode
from ottla.core.metrics import Counter, Histogram, Metrics
from ottla.core.reference import config_markdown, errors_markdown, metrics_markdown

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


class TopicConfig(Config):
    """Settings of one topic.

    And more that is of no interest here.
    """

    segment_bytes = Key(
        "segment.bytes",
        Bytes,
        1024,
        at_least(14),
        broker_key="log.segment.bytes",
        aliases=["seg"],
        scope=Scope.CLUSTER_WIDE,
        doc="Roll at this size.",
    )
    password = Key("password", Password, None, doc="Opens the key.")
    directory = Key("directory", str, doc="Where.")


class LogMetrics(Metrics):
    """What the log counts."""

    flush_ms = Histogram("log_flush_ms", "How long a sync took.", buckets=(0.5, 1, 2))
    appends = Counter("log_appends_total", "Appended | batches.", labels=["topic"])


def test_the_page_of_error_codes_is_up_to_date() -> None:
    assert (REFERENCE / "errors.md").read_text() == errors_markdown(), "run `make docs`"


def test_every_error_code_has_a_row_with_its_advice() -> None:
    page = errors_markdown()
    assert all(f"| {code.value} | `{code.name}` |" in page for code in ErrorCode)
    assert (
        "| 16 | `NOT_COORDINATOR` | refresh metadata, then retry | "
        "This broker is not the coordinator of that group or transactional id. |\n"
    ) in page
    assert "| 0 | `NONE` |  | No error. |" in page


def test_a_setting_is_described_by_its_declaration() -> None:
    page = config_markdown([TopicConfig])
    assert "## TopicConfig\n\nSettings of one topic.\n\n### `directory`" in page
    assert (
        "### `segment.bytes`\n\n"
        "Roll at this size.\n\n"
        "- Accepts: a number of bytes, such as 1048576 or 1 MiB, at least 14\n"
        "- Default: `1024`\n"
        "- Broker key: `log.segment.bytes`\n"
        "- Also written: `seg`\n"
        "- Changes: cluster-wide\n"
    ) in page
    assert "- Default: none: must be set\n" in page
    assert "- Default: not set\n- Changes: read-only\n- Shown: never\n" in page


def test_metrics_are_listed_by_name_with_their_labels_and_buckets() -> None:
    assert metrics_markdown([LogMetrics]).endswith(
        "| Name | Kind | Labels | Meaning |\n"
        "| --- | --- | --- | --- |\n"
        "| `log_appends_total` | counter | `topic` | Appended \\| batches. |\n"
        "| `log_flush_ms` | histogram, 3 buckets from 0.5 to 2 |  | How long a sync took. |\n"
    )
