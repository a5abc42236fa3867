"""Layer 1: the Kafka wire protocol as data: declarations, codecs, framing.

schema, wiretypes             how a message is declared
messages/                     the declarations, one module per family of APIs
apis                          which API lives in which module
codec, codegen*, primitives   a codec per message version, generated on first use
explain                       why a message cannot be written
framing                       frames and headers, sans-IO
"""
