"""Libraries that are not part of the core install, imported when a serializer is made that needs them."""

from importlib import import_module
from typing import Any


def library(name: str, what: str) -> Any:
    """The module. Raises ImportError in a sentence that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name.split('.')[0]}: pip install 'ottla[schema]'") from error
