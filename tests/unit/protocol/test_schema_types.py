"""What a type checker makes of declarations: mypy --strict sees int and str, and refuses wrong arguments."""

import os
import pathlib

from mypy import api as mypy

ROOT = pathlib.Path(__file__).parents[3]

SAMPLE = """\
from ottla.protocol.schema import Int16, Records, String, api, field, struct

@api(key=0, versions="0-3", flexible="2+")
class Sample:
    @struct
    class Topic:
        name: String
        records: Records | None = field("1+", default=None)

    acks: Int16
    maybe: String | None = field("1+", default=None)
    topics: list[Topic] = field(default=[])

made = Sample(acks=1, topics=[Sample.Topic(name="t")])
reveal_type(made.acks)
reveal_type(made.maybe)
reveal_type(made.topics)
Sample()
Sample(acks="1")
Sample(1)
Sample(acks=1, ack=2)
Sample.Topic(name=None)
"""

EXPECTED = {
    15: 'Revealed type is "int"',
    16: 'Revealed type is "str | None"',
    17: 'Revealed type is "list[sample.Sample.Topic]"',
    18: 'Missing named argument "acks"',
    19: 'Argument "acks" to "Sample" has incompatible type "str"; expected "int"',
    20: "Too many positional arguments",
    21: 'Unexpected keyword argument "ack"',
    22: 'Argument "name" to "Topic" has incompatible type "None"; expected "str"',
}


def test_mypy_infers_field_types_and_rejects_wrong_arguments(tmp_path, monkeypatch):
    (tmp_path / "sample.py").write_text(SAMPLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", os.fspath(ROOT))
    said, errors, _ = mypy.run(["--strict", "--config-file=", "--no-color-output", "sample.py"])
    assert errors == ""
    found: dict[int, str] = {}
    for line in said.splitlines():
        if line.startswith("sample.py:"):
            _, number, text = line.split(":", 2)
            found[int(number)] = found.get(int(number), "") + text
    assert found.keys() == EXPECTED.keys(), said
    for number, text in EXPECTED.items():
        assert text in found[number]
