"""The broker's password is read from where it may stand and shown nowhere; wrong settings are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pads_runtime.bus.link import broker_of
from pads_runtime.config import BusSettings, PadsSettings, load, validate
from pads_runtime.errors import ConfigError
from pads_runtime.runs import RunRecord

SECRET = "open sesame 42"


def test_the_password_comes_from_the_file_then_the_environment_then_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("from the file\n", encoding="utf-8")
    setting = {"username": "pads", "password": "from the setting"}
    assert broker_of(BusSettings.model_validate(setting)).password == "from the setting"
    monkeypatch.setenv("PADS_MQTT_PASSWORD", "from the environment")
    assert broker_of(BusSettings.model_validate(setting)).password == "from the environment"
    filed = setting | {"password_file": tmp_path / "password"}
    assert broker_of(BusSettings.model_validate(filed)).password == "from the file"


def test_without_a_user_name_no_password_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADS_MQTT_PASSWORD", SECRET)
    assert broker_of(BusSettings()).password is None


def test_a_password_file_that_cannot_be_read_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bus.password_file '.*none' cannot be read: No such file"):
        broker_of(BusSettings(username="pads", password_file=tmp_path / "none"))


def test_no_run_record_shows_the_password(tmp_path: Path) -> None:
    command = ["pads", "talk", "--set", f"bus.password={SECRET}", f"--set=bus.password={SECRET}"]
    command += ["--set", f"bus={{username: pads, password: {SECRET}}}", "--set", "bus.host=broker"]
    settings = load(None, ["bus.username=pads", f"bus.password={SECRET}", f"run.dir={tmp_path}"])
    with RunRecord.begin("talk", "to see", settings, {}, command) as record:
        record.log("talking")
    files = {path.name: path.read_text(encoding="utf-8") for path in record.path.iterdir()}
    assert {"manifest.json", "cmd.sh"} <= files.keys()
    assert [name for name, text in files.items() if SECRET in text or "sesame" in text] == []
    manifest = json.loads(files["manifest.json"])
    assert manifest["settings"]["bus"]["username"] == "pads"
    assert manifest["command"][-1] == "bus.host=broker"


@pytest.mark.parametrize("password", [SECRET, 12345678, [SECRET]])
def test_no_message_shows_the_password(password: object) -> None:
    wrong = {"bus": {"username": "pads", "password": password, "port": "x"}}
    with pytest.raises(ConfigError) as found:
        validate(PadsSettings, wrong)
    assert "sesame" not in str(found.value) and "12345678" not in str(found.value)
    good = BusSettings(username="pads", password=SECRET)
    assert "sesame" not in f"{good!r} {broker_of(good)!r} {good.model_dump_json()}"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"site": "a/b"}, "site"),
        ({"site": "#"}, "site"),
        ({"site": ""}, "site"),
        ({"port": 70000}, "port"),
        ({"host": ""}, "host"),
        ({"password": "x"}, "a password needs bus.username"),
        ({"ca_file": "ca.pem"}, "set bus.tls to true"),
        ({"backoff_min_s": 5, "backoff_max_s": 1}, "must not exceed"),
        ({"protocol": "4"}, "protocol"),
        ({"outbox": 0}, "outbox"),
        ({"hermes_transcripts": "both"}, "hermes_transcripts"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        validate(PadsSettings, {"bus": fields})


@pytest.mark.parametrize(("fields", "port"), [({}, 1883), ({"tls": True}, 8883), ({"tls": True, "port": 1}, 1)])
def test_the_port_is_the_usual_one_unless_it_is_named(fields: dict[str, object], port: int) -> None:
    assert broker_of(BusSettings.model_validate(fields)).port == port
