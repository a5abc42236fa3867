"""`ottla config`: settings of topics, brokers, groups and client metrics, and where those of the connection come from.

Exit codes: 0 done, 1 refused, 2 usage, 4 no such topic, broker or setting, 5 not allowed, 6 no broker answers, 130
interrupted.
"""

import click

from ottla.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "get": Lazy("ottla.cli.config_get:get", "Show settings of a topic, a broker, a group."),
    "set": Lazy("ottla.cli.config_set:set_", "Change settings."),
    "unset": Lazy("ottla.cli.config_set:unset", "Give settings their default back."),
    "diff": Lazy(
        "ottla.cli.config_diff:diff", "Compare the settings of two things, or of one with its defaults."
    ),
    "explain": Lazy("ottla.cli.config_explain:explain", "Say where a setting comes from."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    aliases={"describe": "get", "show": "get", "alter": "set", "delete": "unset", "compare": "diff"},
)
def config() -> None:
    """Settings: look at them, change them, compare them, and see where they come from."""
