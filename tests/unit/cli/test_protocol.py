"""`ottla protocol`: the table of APIs and the generated source."""

from click.testing import CliRunner

from ottla.cli.protocol import protocol


def run(*args: str):
    return CliRunner().invoke(protocol, args)


def test_apis_are_listed_with_their_versions():
    result = run("apis")
    assert result.exit_code == 0
    assert "    0  Produce                        0-13      9-13      produce" in result.output.splitlines()
    assert (
        "20000  CompactTopics                  0         0         compaction" in result.output.splitlines()
    )
    assert len(result.output.splitlines()) == 77


def test_the_generated_source_is_printed_and_is_python():
    result = run("codec", "produce", "9")
    assert result.exit_code == 0
    assert "def encode(m, out, parts):" in result.output
    compile(result.output, "codec", "exec")
    assert run("codec", "produce", "9", "--response").output != result.output


def test_an_unknown_api_or_version_is_a_usage_error():
    result = run("codec", "prodooce", "9")
    assert result.exit_code == 2
    assert "no API is called 'prodooce'" in result.output
    result = run("codec", "produce", "99")
    assert result.exit_code == 2
    assert "ProduceRequest has no version 99, only 0-13" in result.output
