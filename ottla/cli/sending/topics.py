"""The topics that are written to: they must be there before the first record is, and nobody makes them by asking."""

from ottla.cli.outcomes import unknown
from ottla.cli.remote import Admin, Failed, admin_config, cluster, servers
from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import topic_name_fault


class Topics:
    """Asks once for each topic. With `creates`, those that are missing are made, as the brokers' defaults say."""

    def __init__(self, creates: bool) -> None:
        self._creates = creates
        self._counts: dict[str, int] = {}
        self.created: list[str] = []

    async def partition_count(self, name: str) -> int:
        """Raises `Failed` if there is no such topic."""
        count = self._counts.get(name)
        if count is None:
            count = self._counts[name] = await self._look(name)
        return count

    async def _look(self, name: str) -> int:
        if fault := topic_name_fault(name):
            raise Failed(f"{name!r} cannot be the name of a topic: it {fault}")
        timeout_ms = int((session().timeout or DEFAULT_TIMEOUT) * 1000)
        async with cluster(servers(session().servers), timeout_ms) as asked:
            found = (await asked.topics([name])).get(name)
            if found is None and not self._creates:
                near = unknown("topic", name, await asked.topics(None))
                raise Failed(
                    f"{near.message}{' ' if near.message.endswith('?') else '; '}--create makes it", 4
                )
        if found is not None:
            return len(found.leaders)
        await self._create(name)
        self._creates, creates = False, self._creates
        try:
            return await self._look(name)
        finally:
            self._creates = creates

    async def _create(self, name: str) -> None:
        from ottla.client.admin.routes import Routes
        from ottla.client.admin.topic_values import NewTopic
        from ottla.client.admin.topics import create_topics
        from ottla.client.errors import PartialFailure

        routes = Routes(admin_config(session().timeout or DEFAULT_TIMEOUT))
        try:
            await create_topics(Admin(routes), [NewTopic(name, -1, -1, None, {})])
            self.created.append(name)
        except PartialFailure as error:
            first: KafkaError = next(iter(error.errors.values()))
            if first.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise first from None
        finally:
            await routes.cluster.close()
