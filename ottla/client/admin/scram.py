"""SCRAM credentials of users (KIP-554).

A password never leaves the client: brokers get its salted hash. It is in no `repr` either.
"""

import enum
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.admin.operations import known
from ottla.client.admin.routes import Answers, Client, all_of, check, outcome
from ottla.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

_SALT_BYTES = 24
ITERATIONS = 8192
"""What Kafka's own tool takes."""


class ScramMechanism(enum.IntEnum):
    """Which hash."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo(NamedTuple):
    """That a user has a password for a mechanism."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's new password for a mechanism."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    iterations: int = ITERATIONS
    salt: bytes | None = None
    """By default a random one."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A user's password for a mechanism is to go."""

    user: str
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256


async def describe_user_scram_credentials(
    admin: Client, users: Iterable[str] | None = None, *, timeout_ms: float | None = None
) -> dict[str, tuple[ScramCredentialInfo, ...]]:
    """For which mechanisms users have passwords: these users, or all that have any."""
    routes = admin._routes
    kind = DescribeUserScramCredentialsRequest.User
    wanted = None if users is None else [kind(name=each) for each in users]

    async def ask() -> Answers[str, tuple[ScramCredentialInfo, ...]]:
        request = DescribeUserScramCredentialsRequest(users=wanted)
        answer: DescribeUserScramCredentialsResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the SCRAM credentials", answer.error_message)
        return {
            row.user: outcome(
                row.error_code,
                f"user {row.user}",
                row.error_message,
                tuple(
                    ScramCredentialInfo(known(ScramMechanism, each.mechanism), each.iterations)
                    for each in row.credential_infos
                ),
            )
            for row in answer.results
        }

    failed = "the SCRAM credentials were not described"
    answers = await routes.patient(ask, routes.deadline(timeout_ms), failed)
    return all_of(answers, "the description of SCRAM credentials")


async def alter_user_scram_credentials(
    admin: Client,
    alterations: Iterable[ScramUpsertion | ScramDeletion],
    *,
    timeout_ms: float | None = None,
) -> None:
    """Set and delete passwords."""
    routes = admin._routes
    changes = list(alterations)
    kind = AlterUserScramCredentialsRequest
    deletions = [
        kind.Deletion(name=each.user, mechanism=int(each.mechanism))
        for each in changes
        if isinstance(each, ScramDeletion)
    ]
    upsertions = [_salted(each) for each in changes if isinstance(each, ScramUpsertion)]

    async def ask(some: list[str]) -> Answers[str, None]:
        request = AlterUserScramCredentialsRequest(
            deletions=[each for each in deletions if each.name in some],
            upsertions=[each for each in upsertions if each.name in some],
        )
        answer: AlterUserScramCredentialsResponse = await routes.cluster.ask_controller(request)
        return {
            row.user: outcome(row.error_code, f"user {row.user}", row.error_message, None)
            for row in answer.results
        }

    deadline = routes.deadline(timeout_ms)
    failed = "the SCRAM credentials were not altered"
    answers = await routes.settle((each.user for each in changes), ask, deadline, failed)
    all_of(answers, "the change of SCRAM credentials")


def _salted(wanted: ScramUpsertion) -> AlterUserScramCredentialsRequest.Upsertion:
    salt = os.urandom(_SALT_BYTES) if wanted.salt is None else wanted.salt
    digest = "sha512" if wanted.mechanism is ScramMechanism.SCRAM_SHA_512 else "sha256"
    hashed = hashlib.pbkdf2_hmac(digest, wanted.password.encode(), salt, wanted.iterations)
    return AlterUserScramCredentialsRequest.Upsertion(
        name=wanted.user,
        mechanism=int(wanted.mechanism),
        iterations=wanted.iterations,
        salt=salt,
        salted_password=hashed,
    )
