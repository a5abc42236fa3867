"""SCRAM (RFC 5802) as a client: a password is proven without being sent, and the server proves that it knows it too.

Four messages: who we are and a nonce; the server's nonce, salt and iterations; our proof; the server's signature. What
the server sends is not trusted before its signature is: its nonce must begin with ours, and its iterations lie within
bounds, so that it can neither weaken the proof nor keep us busy. As in Kafka, names and passwords are taken as UTF-8
without further preparation.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

ITERATIONS_MIN = 4096  # fewer would make the proof cheap to guess from; Kafka's own clients refuse them too
ITERATIONS_MAX = 1_000_000  # a second of computing
_NONCE_BYTES = 24
_MESSAGE_SIZE_MAX = 8192
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramClient:
    """One exchange. Every method raises ValueError, in a sentence, for what a server must not say."""

    def __init__(self, mechanism: str, name: str, password: str, nonce: str | None = None) -> None:
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode("ascii")
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={escaped},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Who we are, and our nonce. No channel is bound."""
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Our proof. Takes a while: as long as the server's iterations say."""
        text = _text(server_first)
        fields = _fields(text)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ValueError("the server's nonce does not go on from ours")
        salt = _decoded(fields.get("s", ""), "salt")
        if not salt:
            raise ValueError("the server sent no salt")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, _iterations(fields.get("i", "")))
        without_proof = f"c=biws,r={nonce}"  # biws: base64 of "n,,"
        exchange = f"{self._first_bare},{text},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), exchange)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), exchange)
        return f"{without_proof},p={base64.b64encode(proof).decode('ascii')}".encode()

    def verify(self, server_final: bytes) -> None:
        """Does the server know the password too?"""
        fields = _fields(_text(server_final))
        if "e" in fields:
            raise ValueError(f"the server said {fields['e']!r}")
        signature = _decoded(fields.get("v", ""), "signature")
        if not self._signature or not hmac.compare_digest(signature, self._signature):
            raise ValueError("the server's signature is wrong: it does not know the password itself")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _text(message: bytes) -> str:
    if len(message) > _MESSAGE_SIZE_MAX:
        raise ValueError(f"the server sent {len(message)} bytes")
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the server sent bytes that are no text") from None


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or len(name) != 1 or name in fields:
            raise ValueError("the server sent what is no SCRAM message")
        fields[name] = value
    if "m" in fields:
        raise ValueError("the server demands an extension that we do not know")
    return fields


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the server's {what} is no base64") from None


def _iterations(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
    if not ITERATIONS_MIN <= count <= ITERATIONS_MAX:
        bounds = f"{ITERATIONS_MIN} to {ITERATIONS_MAX}"
        raise ValueError(f"the server wants {text[:20]!r} iterations, {bounds} are allowed")
    return count
