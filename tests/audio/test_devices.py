"""A name or a number means one device or gives one clear line."""

from __future__ import annotations

import builtins
import json
from typing import Any

import pytest

from pads_runtime.audio.devices import find_device, list_devices
from pads_runtime.audio.fake import FakeBackend, default, fact
from pads_runtime.audio.opening import open_device
from pads_runtime.audio.portaudio import PortAudio, StreamFormat, _refusal
from pads_runtime.cli_devices import devices
from pads_runtime.errors import DeviceError

LISTED = (
    default(fact(0, "Built-in Microphone", inputs=2)),
    default(fact(1, "Built-in Speaker", outputs=2)),
    fact(2, "USB Headset", inputs=1, outputs=2),
    fact(3, "USB Camera", inputs=1),
)


def refusal(wanted: str | int | None, direction: str = "input", listed: tuple = LISTED) -> str:
    with pytest.raises(DeviceError) as told:
        find_device(wanted, direction, FakeBackend(listed))
    assert "\n" not in str(told.value)
    return str(told.value)


def test_without_a_name_the_default_of_each_direction_is_taken() -> None:
    assert find_device(None, "input", FakeBackend(LISTED)).index == 0
    assert find_device(None, "output", FakeBackend(LISTED)).index == 1


def test_where_no_default_is_marked_the_first_usable_device_is_taken() -> None:
    assert find_device(None, "output", FakeBackend(LISTED[2:])).name == "USB Headset"


@pytest.mark.parametrize("wanted", [2, "2", "USB Headset", "usb headset", "head", " Headset "])
def test_a_number_a_name_or_a_unique_part_of_it_finds_the_device(wanted: str | int) -> None:
    assert find_device(wanted, "input", FakeBackend(LISTED)).index == 2


def test_an_unknown_name_is_told_with_the_nearest_known_one() -> None:
    assert refusal("USB Hedset") == "there is no microphone 'USB Hedset'; did you mean 'USB Headset'?"


def test_a_name_like_no_other_is_told_with_what_there_is() -> None:
    assert "there is: 0 'Built-in Microphone', 2 'USB Headset', 3 'USB Camera'" in refusal("zzz")


def test_an_ambiguous_name_is_told_with_its_meanings() -> None:
    assert refusal("usb") == "'usb' means several microphones: 2 'USB Headset', 3 'USB Camera'; give the number"


def test_a_part_that_only_one_direction_knows_is_not_ambiguous() -> None:
    assert find_device("usb", "output", FakeBackend(LISTED)).index == 2


@pytest.mark.parametrize("wanted", [4, -1, "17"])
def test_a_number_that_is_not_there_is_told_with_the_range(wanted: str | int) -> None:
    assert "0 to 3" in refusal(wanted) or "there is no microphone '-1'" in refusal(wanted)


def test_a_number_of_the_wrong_direction_is_refused() -> None:
    assert refusal(3, "output") == "device 3 'USB Camera' is no speaker; see: pads devices"


def test_a_machine_without_devices_lists_none_and_says_so_when_one_is_wanted() -> None:
    assert list_devices(FakeBackend(())) == ()
    assert refusal(None, listed=()) == "no microphone found; connect one and see: pads devices"
    assert refusal("USB", "output", listed=(LISTED[0],)) == "no speaker found; connect one and see: pads devices"


class Native(Exception):
    """Looks like sounddevice's error: (text, code, (host API, host code, host text))."""


@pytest.mark.parametrize(
    ("code", "host", "says"),
    [
        (-9985, None, "is busy"),
        (-9999, (8, -16, "Device or resource busy"), "is busy"),
        (-9999, (8, -13, "Permission denied"), "permission denied"),
        (-9996, None, "is not there"),
        (-9999, (8, -19, "No such device"), "is not there"),
        (-9999, (8, -111, "Connection refused"), "is not there"),
        (-9999, (8, -22, "Invalid argument"), "cannot be opened: Error opening InputStream: x Invalid argument"),
        (-9987, None, "cannot be opened: Error opening InputStream: x"),
        (-9997, None, "does not take 16000 Hz with 1 channel(s)"),
    ],
)
def test_each_native_error_becomes_one_line_that_names_the_device(code: int, host: tuple | None, says: str) -> None:
    args = ("Error opening InputStream: x", code) + ((host,) if host else ())
    error = _refusal("microphone 'USB'", Native(*args), StreamFormat(16_000, 1, 160, 0.04))
    assert str(error).startswith("microphone 'USB'")
    assert says in str(error)
    assert "\n" not in str(error)


def opened(backend: FakeBackend, rate: int = 16_000):
    return open_device(backend, None, "input", rate, 0.04, lambda d, f: backend.open_input(d, f, lambda *_: None))


def test_a_device_that_takes_our_rate_is_opened_at_it() -> None:
    assert opened(FakeBackend()).form == StreamFormat(16_000, 1, 160, 0.04)


def test_a_device_that_refuses_16_khz_is_opened_at_its_own_rate() -> None:
    form = opened(FakeBackend(takes={(48_000, 1)})).form
    assert (form.rate, form.channels, form.block) == (48_000, 1, 480)


def test_a_device_that_refuses_mono_is_opened_in_stereo() -> None:
    form = opened(FakeBackend(takes={(44_100, 2)})).form
    assert (form.rate, form.channels, form.block) == (44_100, 2, 441)


def test_a_device_that_takes_nothing_known_is_told_with_what_was_tried() -> None:
    with pytest.raises(DeviceError, match=r"takes none of the formats tried \(Hz/channels 16000/1, 16000/2, 48000/1"):
        opened(FakeBackend(takes=set()))


def test_a_busy_device_is_not_tried_in_other_formats() -> None:
    backend = FakeBackend(refuses={"Built-in Microphone": "microphone 'Built-in Microphone' is busy"})
    with pytest.raises(DeviceError, match="is busy"):
        opened(backend)
    assert backend.streams == []


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError("PortAudio library not found"), "run: sudo apt-get install libportaudio2"),
        (ImportError("No module named 'sounddevice'"), "run ./scripts/setup"),
    ],
)
def test_a_missing_library_is_one_line_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    real = builtins.__import__

    def fails(name: str, *rest: Any, **more: Any) -> Any:
        if name == "sounddevice":
            raise error
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", fails)
    with pytest.raises(DeviceError) as told:
        PortAudio()
    assert str(told.value).endswith(says)
    assert "\n" not in str(told.value)


def test_the_list_marks_defaults_and_survives_brackets_in_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = fact(2, "Mic [/red] ünï", inputs=1)
    monkeypatch.setattr("pads_runtime.audio.devices.PortAudio", lambda: FakeBackend((*LISTED[:2], odd)))
    devices()
    shown = capsys.readouterr().out
    assert "Mic [/red] ünï" in shown
    assert [line.count("*") for line in shown.splitlines() if "Built-in" in line] == [1, 1]
    devices(as_json=True)
    listed = json.loads(capsys.readouterr().out)["devices"]
    assert [d["name"] for d in listed if d["default_input"]] == ["Built-in Microphone"]


def test_a_machine_without_devices_says_so_instead_of_an_empty_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pads_runtime.audio.devices.PortAudio", lambda: FakeBackend(()))
    devices()
    assert "no audio device found" in capsys.readouterr().out
