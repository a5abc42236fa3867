"""Commands where no broker is, or another kind of server: one sentence that says what to do, the right exit code, no
traceback.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
import trustme

from ottla.cli.main import main

ASKING = [
    ["topic", "compact", "orders"],
    ["group", "ls"],
    ["group", "lag", "billing"],
    ["txn", "ls"],
    ["txn", "describe", "pay"],
    ["cluster", "health"],
    ["cluster", "brokers"],
    ["cluster", "elect", "--dry-run"],
    ["cluster", "reassign", "--list"],
]
"""One of each kind of command that asks a cluster."""
CLASSIC = [
    ["kafka-topics", "--list"],
    ["kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "orders"],
    ["kafka-get-offsets", "--topic", "orders"],
    ["kafka-log-dirs", "--describe"],
    ["kafka-broker-api-versions"],
]
UNREACHABLE, FAILED = 6, 1


@contextlib.contextmanager
def listening(serve) -> Iterator[str]:
    """Something that listens, and does `serve` with every connection in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threads: list[threading.Thread] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threads.append(threading.Thread(target=answer, args=[server.accept()[0]]))
                    threads[-1].start()

        def answer(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                serve(connection)

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"localhost:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for each in (accepting, *threads):
                each.join(20)


@pytest.fixture(scope="module")
def tls_server() -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)

    with listening(serve) as address:
        yield address


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"localhost:{bound.getsockname()[1]}"


def said(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err and "a bug" not in captured.err
    return captured.err


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_where_nobody_listens_the_address_is_named(words, nobody, capsys):
    assert main([*words, "-b", nobody, "--timeout", "2"]) == UNREACHABLE
    error = said(capsys)
    assert nobody in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_tls_port_that_is_spoken_to_in_plain_is_recognised_and_the_setting_named(words, tls_server, capsys):
    assert main([*words, "-b", tls_server, "--timeout", "5"]) == FAILED
    error = said(capsys)
    assert f"{tls_server} speaks TLS on this port" in error
    assert "-X security.protocol=SSL" in error


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(words, tls_server, capsys):
    assert main([*words, "-b", tls_server, "--timeout", "5", "-X", "security.protocol=SSL"]) == 5
    assert "is not trusted" in said(capsys)


@pytest.mark.parametrize("words", CLASSIC, ids=" ".join)
def test_classic_tools_fail_with_1_and_a_sentence_where_nobody_listens(words, nobody, capsys):
    assert main([*words, "--bootstrap-server", nobody]) == 1
    captured = capsys.readouterr()
    assert nobody in captured.out + captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("words", CLASSIC, ids=" ".join)
def test_classic_tools_recognise_tls(words, tls_server, capsys):
    assert main([*words, "--bootstrap-server", tls_server]) == 1
    captured = capsys.readouterr()
    assert "speaks TLS on this port" in captured.out + captured.err


def test_options_may_stand_before_the_command(nobody, capsys):
    assert main(["-b", nobody, "--timeout", "500ms", "group", "ls"]) == UNREACHABLE
    assert nobody in said(capsys)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-X", "security.protocl=SSL", "group", "ls"], "did you mean 'security.protocol'?"),
        (["-X", "nonsense", "group", "ls"], "write -X key=value"),
        (["-X", "security.protocol=TLS", "group", "ls"], "security.protocol"),
        (["--timeout", "soon", "group", "ls"], "is no duration"),
        (["--profile", "a/b", "group", "ls"], "cannot be the name of a profile"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_that_make_no_sense_are_a_usage_error(words, sentence, capsys):
    assert main(words) == 2
    assert sentence in said(capsys)


def test_a_profile_that_does_not_exist_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path))
    assert main(["--profile", "nowhere", "group", "ls"]) == 1
    assert "there is no profile 'nowhere'; `ottla profile add nowhere -b HOST:PORT` makes it" in said(capsys)
