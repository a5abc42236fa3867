"""kafkajs: the client that most programs in Node use. Codecs other than gzip are its users' business to plug in."""

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.interop.clients.client import Unavailable
from tests.interop.clients.remote import RemoteClient

_PROGRAM = Path(__file__).with_name("kafkajs_client.js")
_MEMBER = Path(__file__).with_name("kafkajs_member.js")
_BUILD = Path(__file__).parents[3] / "build" / "node"
_PACKAGES = ["kafkajs@2.2.4", "kafkajs-snappy@1.1.0", "lz4-napi@2", "zstd-codec@0.1.5"]


def prepare() -> None:
    """Fetch the packages, once."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise Unavailable("no Node here: kafkajs cannot run")
    _BUILD.mkdir(parents=True, exist_ok=True)
    with (_BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at once
        done = _BUILD / "fetched.txt"
        if done.exists() and done.read_text().split() == _PACKAGES:
            return
        (_BUILD / "package.json").write_text("{}\n")  # or npm would look for a project further up
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *_PACKAGES]
        try:
            result = subprocess.run(command, cwd=_BUILD, capture_output=True, text=True, timeout=240)
        except subprocess.TimeoutExpired:
            raise Unavailable("npm took too long to fetch kafkajs") from None
        if result.returncode:
            raise Unavailable("npm could not fetch kafkajs")
        done.write_text("\n".join(_PACKAGES))


class KafkaJs(RemoteClient):
    def __init__(self, bootstrap_server: str) -> None:
        super().__init__(["node", str(_PROGRAM), str(_BUILD / "node_modules")], bootstrap_server)


def member_command() -> list[str]:
    """The program that is a member of a group."""
    return ["node", str(_MEMBER), str(_BUILD / "node_modules")]
