"""Sockets: connections that clients open, and those we open ourselves."""
