"""A broker that is sent damaged requests of real clients goes on serving, logs no surprise, and does not grow."""

import os
import random
import struct
from pathlib import Path

import pytest

from ottla.core.errors import ProtocolError
from ottla.protocol.framing import decode_request
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.topics import CreatePartitionsRequest, CreateTopicsRequest
from ottla.records.compression import Codec, compress
from tests.scenarios.batches import of_section
from tests.scenarios.process import BrokerProcess
from tests.scenarios.raw import Raw, frame_of, produce_request

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.hex"))
FRAMES = 2000 * (50 if os.environ.get("OTTLA_EXPLORE") else 1)
AT_ONCE = 50
MIB = 1 << 20
GROWTH_MAX = 64 * MIB
OPENERS, BYTES_PER_OPENER = 2, 2 * 64 * MIB  # the cap, and once more while the result is cut to its size
EXTREMES = [0, 1, -1, 127, 128, 255, 2**15 - 1, 2**15, 2**31 - 1, -(2**31), 2**31, 200_001]


def golden_frames() -> list[bytes]:
    return [bytes.fromhex("".join(path.read_text().split())) for path in GOLDEN]


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """The first eight bytes stay most of the time: what nobody knows is refused before it gets interesting."""
    raw = bytearray(frame)
    start = 0 if chance.random() < 0.05 else 8
    for _ in range(chance.randint(1, 4)):
        if len(raw) <= start:
            break
        at = chance.randrange(start, len(raw))
        match chance.randrange(6):
            case 0:
                raw[at] = chance.choice([0, 1, 2, 127, 128, 254, 255])
            case 1:
                raw[at] ^= 1 << chance.randrange(8)
            case 2:
                del raw[at:]
            case 3:
                raw[at:at] = chance.randbytes(chance.choice([1, 2, 4, 100]))
            case 4:
                size = chance.choice([1, 2, 4])
                raw[at : at + size] = struct.pack(">q", chance.choice(EXTREMES))[-size:]
            case 5:
                other = chance.randrange(start, len(raw))
                raw[at : at + 20] = raw[other : other + 20]
    return bytes(raw)


def is_much_work(frame: bytes) -> bool:
    """Thousands of partitions are a request like any other; making them takes its time, and is no harm."""
    try:
        _, request = decode_request(frame)
    except ProtocolError:
        return False
    match request:
        case CreateTopicsRequest():
            return any(topic.num_partitions > 20 or len(topic.assignments) > 20 for topic in request.topics)
        case CreatePartitionsRequest():
            return any(topic.count > 20 for topic in request.topics)
    return False


def test_damaged_frames_of_real_clients_do_no_harm(tmp_path):
    chance = random.Random(20)
    frames = golden_frames()
    with BrokerProcess(tmp_path, '{"num.partitions": "1"}') as broker:
        for frame in frames:  # whatever is compiled or created on first use is there before we measure
            with Raw(broker.port) as raw:
                raw.send_frame(frame)
        before, files = broker.rss_bytes, broker.file_count
        for _ in range(FRAMES // AT_ONCE):
            together = [Raw(broker.port) for _ in range(AT_ONCE)]
            for raw in together:
                frame = damaged(chance.choice(frames), chance)
                if not is_much_work(frame):
                    raw.send_frame(frame)
            for raw in together:
                raw.reset() if chance.random() < 0.5 else raw.socket.close()
            with Raw(broker.port) as other:
                assert other.is_served()
        grown = broker.rss_bytes - before
        assert broker.is_running
    assert "Traceback" not in broker.log, broker.log[broker.log.index("Traceback") - 500 :][:4000]
    assert grown <= GROWTH_MAX
    assert files


def announcing(port: int) -> Raw:
    return Raw(port).send(struct.pack(">i", 100 * MIB) + bytes(1000))


def beginning(port: int) -> Raw:
    return Raw(port).send(struct.pack(">i", 5000) + bytes(5))


def counting(port: int) -> Raw:
    body = struct.pack(">hhihi", 3, 1, 7, -1, 2**31 - 1)
    return Raw(port).send_frame(body + bytes(500_000))


@pytest.mark.parametrize("attack", [announcing, beginning, counting])
def test_what_is_only_announced_takes_no_memory(tmp_path, attack):
    """A hundred at once, of which every one claims to be larger than all that the broker may grow."""
    with BrokerProcess(tmp_path) as broker:
        first = attack(broker.port)
        with Raw(broker.port) as other:
            assert other.is_served()
        before = broker.rss_bytes
        attackers = [first] + [attack(broker.port) for _ in range(100)]
        with Raw(broker.port) as other:
            assert other.is_served()
        grown = broker.rss_peak_bytes - before
        for raw in attackers:
            raw.socket.close()
    assert grown <= GROWTH_MAX
    assert "Traceback" not in broker.log


def test_bombs_are_opened_by_few_at_a_time(tmp_path):
    """Each may decompress to the cap for a moment; thirty of them take no more than those who open them hold."""
    bomb = of_section(compress(Codec.ZSTD, bytes(60 * MIB)), Codec.ZSTD)
    with BrokerProcess(tmp_path, '{"compression.type": "uncompressed"}') as broker:
        with Raw(broker.port) as other:
            other.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="bombs")]), 8)  # which creates it
        before = broker.rss_bytes
        bombers = [Raw(broker.port) for _ in range(30)]
        for raw in bombers:
            raw.send(frame_of(produce_request("bombs", bomb), 9))
        for raw in bombers:
            assert raw.receive_frame()
            raw.socket.close()
        grown = broker.rss_peak_bytes - before
    assert grown <= OPENERS * BYTES_PER_OPENER
    assert "Traceback" not in broker.log
