"""What handlers know about who asks."""

from ottla.broker.call import Call, Caller
from ottla.network.connection import Connection, Hub, Limits


def test_a_connection_is_what_handlers_expect_a_caller_to_be():
    connection = Connection(Hub(lambda *_: [], Limits(), lambda: 0), "PLAINTEXT")
    caller: Caller = connection
    for name in ("listener", "peer_host", "principal", "appending", "close", "mute"):
        assert hasattr(caller, name)
    assert connection.appending is None


def test_a_call_keeps_what_the_header_said():
    call = Call("connection", 3, 12, 99, None)
    assert (call.connection, call.api_key, call.version, call.correlation_id, call.client_id) == (
        "connection",
        3,
        12,
        99,
        None,
    )
