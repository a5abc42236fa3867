"""What each API does. Modules are named as in ottla/protocol/messages, functions as the APIs."""
