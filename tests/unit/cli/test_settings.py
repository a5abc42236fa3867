"""Where a setting comes from: flag, --set, environment, file, default, in this order."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import listeners_of
from ottla.cli.settings import Flags, gather
from ottla.core.errors import ConfigError

NO_FLAGS = Flags()


def config(
    *assignments: str,
    flags: Flags = NO_FLAGS,
    environment: dict[str, str] | None = None,
    text: str | None = None,
) -> BrokerConfig:
    return BrokerConfig(gather(flags, assignments, environment or {}, text, "server.properties").values)


def warnings(environment: dict[str, str] | None = None, text: str | None = None) -> list[str]:
    return gather(Flags(), (), environment or {}, text, "server.properties").warnings


def refused(*assignments: str, **places: object) -> str:
    with pytest.raises(ConfigError) as raised:
        config(*assignments, **places)  # type: ignore[arg-type]
    return str(raised.value)


def test_each_place_goes_before_the_next():
    text, environment, flags = "log.dirs=/file", {"OTTLA_LOG_DIRS": "/environment"}, Flags(data_dir="/flag")
    assert config().log_dirs == ("ottla-data",)
    assert config(text=text).log_dirs == ("/file",)
    assert config(text=text, environment=environment).log_dirs == ("/environment",)
    assert config("log.dirs=/set", text=text, environment=environment).log_dirs == ("/set",)
    assert config("log.dirs=/set", text=text, environment=environment, flags=flags).log_dirs == ("/flag",)


def test_the_last_assignment_of_a_key_counts():
    assert config("num.partitions=2", "num.partitions=3").num_partitions == 3


def test_an_alias_is_the_same_setting_wherever_it_is_written():
    assert config("broker.id=7", text="node.id=1").node_id == 7
    assert config(text="node.id=1\nbroker.id=1").node_id == 1
    assert refused(text="node.id=1\nbroker.id=2") == (
        "server.properties: node.id and broker.id are the same setting, but differ"
    )


def test_a_coarser_key_from_above_goes_before_a_finer_one_from_below():
    assert config("log.retention.hours=1", text="log.retention.ms=5").log_retention_ms == 3_600_000
    assert config("log.dir=/a", text="log.dirs=/b").log_dirs == ("/a",)
    assert config(text="log.retention.ms=5\nlog.retention.hours=1").log_retention_ms == 5


def test_a_data_directory_may_have_commas_in_its_name():
    assert config(flags=Flags(data_dir="/a,b")).log_dirs == ("/a,b",)


def test_an_unknown_key_in_a_file_is_warned_about_and_ignored():
    assert config(text="num.partition=3").num_partitions == 1
    assert warnings(text="num.partition=3\nssl.key.password=s3cret") == [
        "server.properties: num.partition is not a known setting; did you mean num.partitions?; it is ignored",
        "server.properties: ssl.key.password is not a known setting; it is ignored",
    ]


def test_an_unknown_key_on_the_command_line_is_refused():
    assert refused("num.partition=3") == "num.partition is not a known setting; did you mean num.partitions?"
    assert refused("num.partitions") == "--set num.partitions has no value: write --set key=value"


def test_variables_that_are_not_settings_are_left_alone_unless_they_look_like_one():
    assert warnings({"OTTLA_TRACEBACK": "1", "OTTLA_PROFILE": "x", "HOME": "/"}) == []
    assert warnings({"OTTLA_NUM_PARTITION": "3"}) == [
        "the variable OTTLA_NUM_PARTITION is not a known setting; did you mean OTTLA_NUM_PARTITIONS?"
    ]


def test_a_bad_value_is_named_as_it_was_written():
    assert refused(text="broker.id=x").startswith("broker.id is 'x'")


def test_the_port_flag_replaces_the_listeners_of_a_file_and_what_was_said_about_them():
    text = """
        listeners=INSIDE://:9092,CONTROLLER://:9093
        advertised.listeners=INSIDE://localhost:9092
        inter.broker.listener.name=INSIDE
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT
    """
    (listener,) = listeners_of(config(text=text, flags=Flags(port=4000)))
    assert str(listener.address) == str(listener.advertised) == "127.0.0.1:4000"
    (listener,) = listeners_of(config(text=text, flags=Flags(advertise="gate:1")))
    assert (listener.name, str(listener.address), str(listener.advertised)) == (
        "INSIDE",
        "0.0.0.0:9092",
        "gate:1",
    )


def test_every_interface_wants_an_advertised_name_and_takes_one():
    assert "--advertise HOST" in refused(flags=Flags(listen="0.0.0.0:9092"))
    (listener,) = listeners_of(config(flags=Flags(listen="0.0.0.0:9092", advertise="gate.example")))
    assert str(listener.advertised) == "gate.example:9092"


def test_flags_that_contradict_each_other_are_refused():
    assert "leave out --port" in refused(flags=Flags(listen="127.0.0.1:1", port=2))
    text = "listeners=A://:1,B://:2\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    assert "set advertised.listeners instead" in refused(text=text, flags=Flags(advertise="x"))


def test_the_http_flag_takes_a_port_or_an_address():
    assert config(flags=Flags(http="9000")).http_listen == "127.0.0.1:9000"
    assert config(flags=Flags(http="[::1]:0")).http_listen == "[::1]:0"
    assert refused(flags=Flags(http="x")).startswith("--http is 'x'")
    assert refused("http.listen=x").startswith("http.listen is 'x'")
