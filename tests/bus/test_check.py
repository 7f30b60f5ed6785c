"""``pads bus check`` against brokers that are there, not there, and choosy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bus_rig import Mosquitto, free_port
from typer.testing import CliRunner

from pads_runtime.bus.check import check
from pads_runtime.cli import app
from pads_runtime.config import BusSettings
from pads_runtime.errors import ConfigError


def settings(**fields: object) -> BusSettings:
    return BusSettings.model_validate({"host": "127.0.0.1", "timeout_s": 2.0, **fields})


async def test_a_good_broker_passes_every_step(broker: Mosquitto) -> None:
    steps = await check(settings(port=broker.port, hermes=True))
    assert [(step.name, step.good) for step in steps] == [
        ("address", True),
        ("login", True),
        ("orders", True),
        ("round trip", True),
    ]
    assert "10 topics" in steps[2].found


async def test_a_closed_port_ends_at_the_address() -> None:
    (step,) = await check(settings(port=free_port()))
    assert (step.name, step.good) == ("address", False)
    assert "Connection refused" in step.found and "bus.host" in step.advice


async def test_a_name_without_an_address_ends_at_the_address() -> None:
    (step,) = await check(settings(host="no-such-host.invalid"))
    assert not step.good and "has no address" in step.found


async def test_a_wrong_login_is_told_from_a_dead_broker(mosquitto: Callable[..., Mosquitto], tmp_path: Path) -> None:
    (tmp_path / "nobody").write_text("")
    broker = mosquitto("allow_anonymous false", f"password_file {tmp_path / 'nobody'}")
    steps = await check(settings(port=broker.port, username="pads", password="secret"))
    assert [step.name for step in steps] == ["address", "connection"]
    assert "refused the connection" in steps[1].found and "bus.username" in steps[1].advice
    assert "secret" not in str(steps)


async def test_an_access_list_that_keeps_our_messages_is_found(
    mosquitto: Callable[..., Mosquitto], tmp_path: Path
) -> None:
    (tmp_path / "acl").write_text("topic read pads/#\n")
    broker = mosquitto(f"acl_file {tmp_path / 'acl'}")
    steps = await check(settings(port=broker.port, timeout_s=0.5))
    assert [step.good for step in steps] == [True, True, True, False]
    assert "may not be published" in steps[-1].found and "access list" in steps[-1].advice


async def test_a_certificate_file_that_is_none_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    with pytest.raises(ConfigError, match=r"ca_file .* not a PEM certificate"):
        await check(settings(tls=True, ca_file=tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match=r"ca_file .* No such file"):
        await check(settings(tls=True, ca_file=tmp_path / "none.pem"))


def test_the_command_says_the_same_and_fails_when_there_is_no_broker(broker: Mosquitto) -> None:
    options = ["--json", "--set", "bus.host=127.0.0.1", "--set"]
    good = CliRunner().invoke(app, ["bus", "check", *options, f"bus.port={broker.port}"])
    assert (good.exit_code, json.loads(good.stdout)["reachable"]) == (0, True)
    bad = CliRunner().invoke(app, ["bus", "check", *options, f"bus.port={free_port()}"])
    assert (bad.exit_code, json.loads(bad.stdout)["reachable"]) == (1, False)
    table = CliRunner().invoke(app, ["bus", "check", "--set", f"bus.port={free_port()}"])
    assert table.exit_code == 1 and "fail" in table.stdout
