"""One module per family of APIs; named like the handlers that answer them."""
