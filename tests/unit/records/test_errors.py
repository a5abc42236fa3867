"""Record errors carry the code that a broker answers with."""

from ottla.core.errors import ErrorCode, ProtocolError
from ottla.records.errors import RecordError, corrupt, invalid, too_large


def test_each_kind_of_error_has_its_code():
    assert corrupt("x").code is ErrorCode.CORRUPT_MESSAGE
    assert invalid("x").code is ErrorCode.INVALID_RECORD
    assert too_large("x").code is ErrorCode.MESSAGE_TOO_LARGE


def test_an_error_names_code_and_detail():
    error = RecordError(ErrorCode.CORRUPT_MESSAGE, "bit rot")
    assert isinstance(error, ProtocolError)
    assert str(error) == "CORRUPT_MESSAGE: bit rot"
    assert error.detail == "bit rot"
