"""Listeners: what is bound, what is advertised, and what is refused with advice."""

import asyncio

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import Listener, host_towards, inter_broker_listener, listeners_of
from ottla.core.errors import ConfigError
from ottla.core.hosts import Address, parse_address, parse_host
from ottla.replication.state import Endpoint


def parsed(listeners: str, advertised: str = "", **more: str) -> tuple[Listener, ...]:
    settings = {"listeners": listeners, "advertised.listeners": advertised}
    return listeners_of(
        BrokerConfig(settings | {name.replace("_", "."): text for name, text in more.items()})
    )


def refused(listeners: str, advertised: str = "", **more: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parsed(listeners, advertised, **more)
    return str(raised.value)


def test_by_default_a_client_on_this_machine_always_works():
    assert listeners_of(BrokerConfig()) == (
        Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092),
    )


def test_what_kafka_had_before_listeners_is_understood_and_listeners_go_before_it():
    (old,) = listeners_of(BrokerConfig({"host.name": "kafka01", "port": "9093"}))
    assert old.address == Address("kafka01", 9093)
    both = BrokerConfig({"port": "9093", "listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert listeners_of(both, "10.0.0.1")[0].address == Address("127.0.0.1", 9092)


def test_where_nobody_said_where_to_listen_it_is_where_the_cluster_is():
    assert listeners_of(BrokerConfig({"port": "1"}), "10.0.0.1")[0].advertised == Address("10.0.0.1", 1)


def test_our_own_address_is_found_as_others_see_it():
    assert asyncio.run(host_towards(Address("127.0.0.1", 2181))) == "127.0.0.1"
    assert asyncio.run(host_towards(Address("no.such.host.invalid", 2181))) == "127.0.0.1"


def test_a_free_port_is_advertised_once_it_is_known():
    (listener,) = parsed("PLAINTEXT://127.0.0.1:0")
    assert listener.advertised_port == 0
    bound = listener.bound(4711)
    assert (bound.address, bound.advertised) == (Address("127.0.0.1", 4711), Address("127.0.0.1", 4711))
    assert bound.endpoint == Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 4711)


def test_an_advertised_port_stays_whatever_port_is_bound():
    (listener,) = parsed("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://gate.example:31000")
    assert listener.bound(9092).advertised == Address("gate.example", 31000)


def test_an_advertised_host_without_port_gets_the_bound_one():
    (listener,) = parsed("PLAINTEXT://0.0.0.0:0", "PLAINTEXT://gate.example:0")
    assert listener.bound(5).advertised == Address("gate.example", 5)


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", ":9092"])
def test_every_interface_needs_an_advertised_address_and_the_message_says_why_and_how(address):
    message = refused(f"PLAINTEXT://{address}")
    assert "clients must be told one address to come back to" in message
    assert "--advertise HOST" in message
    assert "advertised.listeners=PLAINTEXT://HOST:9092" in message


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", ":9092"])
def test_every_interface_cannot_be_advertised(address):
    assert "no client can connect to that" in refused("PLAINTEXT://127.0.0.1:9092", f"PLAINTEXT://{address}")


def test_no_host_is_every_interface_and_localhost_is_the_ipv4_loopback():
    assert parsed("PLAINTEXT://:1", "PLAINTEXT://here:1")[0].host == "0.0.0.0"
    (local,) = parsed("PLAINTEXT://localhost:9092")
    assert (local.host, local.advertised_host) == ("127.0.0.1", "127.0.0.1")


def test_ipv6_addresses_stand_in_brackets():
    (listener,) = parsed("PLAINTEXT://[::1]:9092")
    assert (listener.host, str(listener.advertised)) == ("::1", "[::1]:9092")


def test_several_listeners_keep_their_order_and_their_own_addresses():
    inside, outside = parsed(
        "INSIDE://10.0.0.1:9092,outside://0.0.0.0:9093",
        "OUTSIDE://kafka.example:443",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    assert (inside.name, inside.advertised) == ("INSIDE", Address("10.0.0.1", 9092))
    assert (outside.name, outside.advertised) == ("OUTSIDE", Address("kafka.example", 443))


def test_listeners_of_controllers_are_left_out():
    (listener,) = parsed(
        "PLAINTEXT://:9092,CONTROLLER://:9093",
        "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
    )
    assert (listener.name, listener.advertised_host) == ("PLAINTEXT", "localhost")
    assert "none for clients" in refused("PLAINTEXT://:9092", controller_listener_names="PLAINTEXT")


def test_brokers_talk_over_the_first_listener_unless_another_is_named():
    both = "A://127.0.0.1:1,B://127.0.0.1:2"
    settings = {"listeners": both, "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    plain = BrokerConfig(settings)
    named = BrokerConfig(settings | {"inter.broker.listener.name": "b"})
    assert inter_broker_listener(plain, listeners_of(plain)).name == "A"
    assert inter_broker_listener(named, listeners_of(named)).name == "B"
    with pytest.raises(ConfigError, match="not among listeners"):
        BrokerConfig(settings | {"inter.broker.listener.name": "C"})


@pytest.mark.parametrize("name", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_protocols_that_are_not_there_yet_are_refused(name):
    assert refused(f"{name}://127.0.0.1:9092") == (
        f"the listener {name} speaks {name}, but only PLAINTEXT is supported so far"
    )


@pytest.mark.parametrize(
    "listeners, advertised, sentence",
    [
        ("127.0.0.1:9092", "", "must be like PLAINTEXT://127.0.0.1:9092"),
        ("PLAINTEXT://127.0.0.1", "", "must be host:port"),
        ("PLAINTEXT://127.0.0.1:99999", "", "must be host:port"),
        ("PLAINTEXT://::1:9092", "", "must be host:port"),
        ("PLAINTEXT://a b:9092", "", "must be host:port"),
        ("PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", "", "two listeners called PLAINTEXT"),
        ("CLIENTS://127.0.0.1:1", "", "does not say what it speaks"),
        ("PLAINTEXT://127.0.0.1:1", "OTHER://h:1", "OTHER, which is not among listeners"),
        ("PLAINTEXT://127.0.0.1:1", "nonsense", "advertised.listeners has 'nonsense'"),
    ],
)
def test_nonsense_is_named(listeners, advertised, sentence):
    assert sentence in refused(listeners, advertised)


def test_two_listeners_cannot_share_an_address():
    both = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"}
    assert "are both on 127.0.0.1:1" in refused("A://127.0.0.1:1,B://127.0.0.1:1", **both)
    assert len(parsed("A://127.0.0.1:0,B://127.0.0.1:0", **both)) == 2


def test_a_protocol_that_does_not_exist_is_named():
    assert "'A:TLS'" in refused("A://127.0.0.1:1", listener_security_protocol_map="A:TLS")


def test_addresses_of_the_command_line():
    assert parse_address("9092", "x") == Address("127.0.0.1", 9092)
    assert parse_address(" [::1]:80 ", "x") == Address("::1", 80)
    assert parse_address(":80", "x") == Address("", 80)
    assert parse_host("kafka.example", "x") == Address("kafka.example", 0)
    assert parse_host("[fe80::1%eth0]", "x") == Address("fe80::1%eth0", 0)
    assert parse_host("kafka.example:1", "x") == Address("kafka.example", 1)
    with pytest.raises(ConfigError, match=r"^--listen is 'here', but must be host:port"):
        parse_address("here", "--listen")
