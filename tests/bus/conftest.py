"""A broker for each test that wants one, and certificates for those with TLS."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are imported by path; this one shares its rig
from bus_rig import MOSQUITTO, Mosquitto


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Callable[..., Mosquitto]]:
    """``mosquitto(*config_lines)`` starts a broker; it ends with the test."""
    if MOSQUITTO is None:
        pytest.skip("no mosquitto on this machine; run: sudo apt-get install mosquitto")
    brokers: list[Mosquitto] = []

    def start(*lines: str, tls: tuple[Path, Path] | None = None) -> Mosquitto:
        folder = tmp_path / f"broker-{len(brokers)}"
        folder.mkdir()
        broker = Mosquitto(folder, *lines, tls=tls)
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    for broker in brokers:
        broker.kill()


@pytest.fixture
def broker(mosquitto: Callable[..., Mosquitto]) -> Mosquitto:
    return mosquitto()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, and a certificate of that authority for localhost: broker.pem, broker.key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine; run: sudo apt-get install openssl")
    folder = tmp_path_factory.mktemp("authority")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Test authority"
    )
    openssl("req", *new_key, "-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n", encoding="utf-8")
    signed = ("-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", *signed, "-out", "broker.pem", "-days", "2")
    return folder
