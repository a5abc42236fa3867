"""Settings as other clients spell them: librdkafka's (`-X` of kcat) and those of Java's properties files.

People have such files and habits already. What has a counterpart here is translated; a Java keystore in its own format
has none, and is refused with a sentence that says how to make a file that can be used.
"""

import re
from collections.abc import Callable, Mapping

from ottla.core.errors import ConfigError

SAME = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.plain.username",
    "sasl.password": "sasl.plain.password",
    "ssl.ca.location": "ssl.cafile",
    "ssl.certificate.location": "ssl.certfile",
    "ssl.key.location": "ssl.keyfile",
    "ssl.key.password": "ssl.password",
    "ssl.truststore.location": "ssl.cafile",
    "ssl.keystore.location": "ssl.certfile",
    "ssl.keystore.password": "ssl.password",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "queue.buffering.max.ms": "linger.ms",
    "message.timeout.ms": "delivery.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "message.max.bytes": "max.request.size",
}
"""The same under another name."""

MEANINGLESS = {
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.keystore.type",
    "api.version.request",
    "broker.version.fallback",
    "log_level",
    "log.connection.close",
    "debug",
    "socket.keepalive.enable",
    "statistics.interval.ms",
}
"""About things that a command settles itself, or that do not exist here."""

_JAAS_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+))")
_JAVA_STORES = ("JKS", "PKCS12")


def translated(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings under our names. What is written under its own name wins over a synonym."""
    _check_stores(settings)
    found: dict[str, str] = {}
    for name, value in settings.items():
        for key, own in _one(name, value).items():
            if key == name:
                found[key] = own
            elif key not in settings:
                found.setdefault(key, own)
    return found


def _one(name: str, value: str) -> dict[str, str]:
    if name in _SPECIAL:
        return _SPECIAL[name](value)
    return {} if name in MEANINGLESS else {SAME.get(name, name): value}


def _jaas(value: str) -> dict[str, str]:
    """`org...PlainLoginModule required username="a" password="b";`"""
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _JAAS_OPTION.findall(value)
    }
    known = {"username": "sasl.plain.username", "password": "sasl.plain.password"}
    found = {known[name]: text for name, text in options.items() if name in known}
    if not found:
        raise ConfigError("sasl.jaas.config has no username and no password that could be used")
    return found


def _identification(value: str) -> dict[str, str]:
    return {"ssl.check.hostname": "true" if value.strip().lower() == "https" else "false"}


def _verification(value: str) -> dict[str, str]:
    """librdkafka's `enable.ssl.certificate.verification` has no counterpart: nobody is trusted blindly here."""
    if value.strip().lower() == "true":
        return {}
    raise ConfigError("certificates are always verified here: name the authority with ssl.ca.location")


def _check_stores(settings: Mapping[str, str]) -> None:
    for store in ("truststore", "keystore"):
        path, kind = settings.get(f"ssl.{store}.location"), settings.get(f"ssl.{store}.type", "").upper()
        if path and (kind in _JAVA_STORES or path.lower().endswith((".jks", ".p12", ".pfx"))):
            raise ConfigError(
                f"ssl.{store}.location: {path} is a Java keystore; export it as PEM "
                f"(keytool -exportcert -rfc, or openssl pkcs12), and name that file"
            )


_SPECIAL: dict[str, Callable[[str], dict[str, str]]] = {
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _identification,
    "enable.ssl.certificate.verification": _verification,
    "auto.offset.reset": lambda value: {
        "auto.offset.reset": {
            "smallest": "earliest",
            "beginning": "earliest",
            "largest": "latest",
            "end": "latest",
            "error": "none",
        }.get(value, value)
    },
}
