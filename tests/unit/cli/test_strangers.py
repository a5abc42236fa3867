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
    ["topic", "ls"],
    ["topic", "describe", "orders"],
    ["topic", "create", "orders"],
    ["topic", "alter", "orders", "--set", "retention.ms=1d"],
    ["topic", "delete", "orders", "--yes"],
    ["topic", "add-partitions", "orders", "7", "--yes"],
    ["topic", "delete-records", "orders", "--before", "end"],
    ["topic", "compact", "orders"],
    ["topic", "clone", "orders", "orders-2"],
    ["bench", "produce", "--records", "5"],
    ["bench", "partitions", "--counts", "1"],
    ["group", "ls"],
    ["group", "lag", "billing"],
    ["group", "describe", "billing"],
    ["group", "reset", "billing", "--topic", "orders", "--to", "start"],
    ["group", "delete", "billing", "--yes"],
    ["produce", "orders", "-v", "one"],
    ["consume", "orders", "-e"],
    ["cat", "-L"],
    ["cat", "-C", "-t", "orders", "-e"],
    ["config", "get", "topic", "orders"],
    ["config", "set", "topic", "orders", "retention.ms=1d"],
    ["config", "unset", "topic", "orders", "retention.ms"],
    ["config", "diff", "topic", "orders"],
    ["txn", "ls"],
    ["txn", "describe", "pay"],
    ["cluster", "health"],
    ["cluster", "brokers"],
    ["cluster", "elect", "--dry-run"],
    ["cluster", "reassign", "--list"],
    ["cluster", "log-dirs"],
    ["cluster", "versions"],
]
"""One of each kind of command that asks a cluster."""
OFFSETS = "{offsets}"
"""Stands for a file that names partitions and offsets."""
CLASSIC = [
    ["kafka-topics", "--list"],
    ["kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "orders"],
    ["kafka-get-offsets", "--topic", "orders"],
    ["kafka-log-dirs", "--describe"],
    ["kafka-broker-api-versions"],
    ["kafka-consumer-groups", "--list"],
    ["kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"],
    ["kafka-reassign-partitions", "--list"],
    ["kafka-transactions", "list"],
    ["kafka-delete-records", "--offset-json-file", OFFSETS],
]
PERF = ["--num-records", "1", "--record-size", "1", "--throughput", "-1"]
MOVING = [
    ["kafka-console-producer", "--topic", "orders"],
    ["kafka-producer-perf-test", "--topic", "orders", *PERF],
    ["kafka-consumer-perf-test", "--topic", "orders", "--messages", "1"],
]
PATIENT = [["kafka-console-consumer", "--topic", "orders", "--timeout-ms", "1000"]]
"""It keeps trying where nobody is, as Apache's does."""
CLASSIC_CODES = {"kafka-consumer-groups": 0}
"""It says what went wrong, and then that all is well; so does Apache's."""
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


def hang_up(connection: socket.socket) -> None:
    connection.recv(4)


def talk_nonsense(connection: socket.socket) -> None:
    connection.recv(4)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + bytes(range(256)) * 8)
    connection.recv(1)


def be_mute(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@pytest.fixture(scope="module", params=[hang_up, talk_nonsense, be_mute], ids=lambda each: each.__name__)
def stranger(request) -> Iterator[str]:
    """Listens, but is no broker."""
    with listening(request.param) as address:
        yield address


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"localhost:{bound.getsockname()[1]}"


@pytest.fixture(scope="module")
def classic(tmp_path_factory):
    """Runs a classic tool at that address."""
    path = tmp_path_factory.mktemp("classic") / "offsets.json"
    path.write_text('{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}]}')

    def run(address, name, *words):
        return main(
            [name, "--bootstrap-server", address, *(str(path) if each == OFFSETS else each for each in words)]
        )

    return run


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


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_server_that_is_no_broker_is_named(words, stranger, capsys):
    assert main([*words, "-b", stranger, "--timeout", "400ms"]) in (FAILED, UNREACHABLE)
    error = said(capsys)
    assert stranger in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", CLASSIC + MOVING, ids=" ".join)
def test_classic_tools_fail_with_1_and_a_sentence_where_nobody_listens(words, nobody, classic, capsys):
    assert classic(nobody, *words) == CLASSIC_CODES.get(words[0], 1)
    captured = capsys.readouterr()
    assert nobody in captured.out + captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("words", CLASSIC + MOVING + PATIENT, ids=" ".join)
def test_classic_tools_recognise_tls(words, tls_server, classic, capsys):
    assert classic(tls_server, *words) == CLASSIC_CODES.get(words[0], 1)
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
    assert main(["--profile", "nowhere", "group", "ls"]) == 4
    assert "there is no profile 'nowhere'; `ottla profile add nowhere -b HOST:PORT` makes it" in said(capsys)
