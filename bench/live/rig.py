"""A sound card made of software: a private PulseAudio with a virtual loudspeaker and a virtual microphone.

``room`` is where the user speaks: what is played into it is what the microphone hears. ``speaker`` is what the agent
speaks into, and can be recorded. PortAudio finds both as ALSA devices ``pads_mic`` and ``pads_speaker`` (and their pair
as ``default``) in any process that has ``Rig.env``. Nothing of the machine's own sound system is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
Place = Literal["room", "speaker"]

ROOM_RATE = 16_000
SPEAKER_RATE = 24_000
"""The rates of the sinks, those of the runtime's ears and of its embedded voice: nothing on the way resamples."""
LEAD_S = 0.3
"""Silence before what is played: time for the stream to settle."""
STARTS_WITHIN_S = 10.0
NEEDED = ("pulseaudio", "pactl", "pacat", "parec")

_ASOUND = """
pcm.pads_mic {{ type pulse server "{server}" device "room.monitor" }}
pcm.pads_speaker {{ type pulse server "{server}" device "speaker" }}
pcm.default {{ type asym playback.pcm pads_speaker capture.pcm pads_mic }}
ctl.default {{ type pulse server "{server}" }}
"""


def missing() -> str | None:
    """Why the rig cannot run here; None if it can."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed: apt-get install pulseaudio pulseaudio-utils libasound2-plugins"
    return None


class Rig:
    """Owns the daemon; ``start`` and ``stop`` may be called in turns. ``folder`` must be private to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._server = f"unix:{folder / 'pulse.sock'}"
        (folder / "asound.conf").write_text(_ASOUND.format(server=self._server), encoding="utf-8")
        self._daemon: subprocess.Popen[bytes] | None = None
        self._players: list[subprocess.Popen[bytes]] = []

    @property
    def env(self) -> dict[str, str]:
        """What a child process needs in its environment to find the rig's devices, and only those."""
        return {
            "PULSE_SERVER": self._server,
            "PULSE_COOKIE": str(self._folder / "cookie"),
            "XDG_RUNTIME_DIR": str(self._folder / "run"),
            "ALSA_CONFIG_PATH": str(self._folder / "asound.conf"),
        }

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Start the daemon and wait until both sinks are there. Raises RuntimeError with its log if it fails."""
        log_path = self._folder / "pulse.log"
        socket = self._folder / "pulse.sock"
        socket.unlink(missing_ok=True)
        modules = (
            f"module-native-protocol-unix auth-anonymous=1 socket={socket}",
            f"module-null-sink {_null_sink('speaker')}",
            f"module-null-sink {_null_sink('room')}",
        )
        options = ["-n", "--exit-idle-time=-1", "--daemonize=no", "--use-pid-file=no", "--disable-shm=yes"]
        options += ["--realtime=no", "--high-priority=no", "--log-target=stderr"]
        for module in modules:
            options += ["-L", module]
        with log_path.open("ab") as log:
            self._daemon = subprocess.Popen(
                ["pulseaudio", *options],
                env={**os.environ, **self.env, "HOME": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        give_up_s = time.monotonic() + STARTS_WITHIN_S
        while not self._answers():
            if self._daemon.poll() is not None or time.monotonic() > give_up_s:
                self.stop()
                raise RuntimeError(f"PulseAudio did not start: {log_path.read_text(errors='replace')[-500:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the daemon: every device is unplugged at once. Idempotent."""
        for player in self._players:
            player.terminate()
            player.wait(5.0)
        self._players.clear()
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.send_signal(signal.SIGCONT)
            daemon.kill()
            daemon.wait(5.0)

    def freeze(self) -> None:
        """Let every device stall without a word, as a hung driver does."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo ``freeze``."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGCONT)

    def unplug(self, place: Place) -> None:
        """Let one device fall silent as if unplugged: ``room`` is the microphone, ``speaker`` the loudspeaker.

        It is suspended; were it removed, PulseAudio would hand its streams to the other device.
        """
        self._pactl("suspend-sink", place, "1")

    def plug(self, place: Place) -> None:
        """Bring a device back that was unplugged."""
        self._pactl("suspend-sink", place, "0")

    @contextmanager
    def echo(self, gain_db: float, delay_ms: int = 40) -> Iterator[None]:
        """Let the microphone hear the loudspeaker, ``gain_db`` louder or softer, while the block runs."""
        loop = ("source=speaker.monitor", "sink=room", f"latency_msec={delay_ms}", "source_dont_move=1")
        module = self._pactl("load-module", "module-loopback", *loop).strip()
        streams = self._pactl("list", "sink-inputs").split("Sink Input #")[1:]
        (number,) = (stream.split()[0] for stream in streams if f"Owner Module: {module}\n" in stream)
        self._pactl("set-sink-input-volume", number, f"{gain_db:.1f}dB")
        try:
            yield
        finally:
            self._pactl("unload-module", module)

    # ------------------------------------------------------------ sound

    def play(self, samples: Samples, rate: int = ROOM_RATE, place: Place = "room") -> subprocess.Popen[bytes]:
        """Let the user say ``samples`` (int16 mono) after LEAD_S; returns at once, ``wait()`` when all is said."""
        lead = np.zeros(round(LEAD_S * rate), dtype=np.int16)
        command = ["pacat", "--playback", "-d", place, f"--rate={rate}", "--latency-msec=200", *_FORMAT]
        # From a file: pacat spins, at the cost of a core, on a pipe whose other end is closed.
        with tempfile.TemporaryFile() as said:
            said.write(np.concatenate([lead, samples]).tobytes())
            said.seek(0)
            player = subprocess.Popen(command, env={**os.environ, **self.env}, stdin=said)
        self._players.append(player)
        return player

    @contextmanager
    def record(self, place: Place = "speaker", rate: int | None = None) -> Iterator[Recording]:
        """Record what sounds at ``place`` while the block runs."""
        rate = rate or (ROOM_RATE if place == "room" else SPEAKER_RATE)
        command = ["parec", "--record", "-d", f"{place}.monitor", f"--rate={rate}", "--latency-msec=10", *_FORMAT]
        recorder = subprocess.Popen(command, env={**os.environ, **self.env}, stdout=subprocess.PIPE)
        recording = Recording(rate)
        reader = threading.Thread(target=recording._read, args=(recorder,), daemon=True)
        reader.start()
        try:
            recording.wait_for(0.05)
            yield recording
        finally:
            recorder.terminate()
            recorder.wait(5.0)
            reader.join(5.0)
            assert recorder.stdout is not None
            recorder.stdout.close()

    # ------------------------------------------------------------ the daemon's ear

    def _answers(self) -> bool:
        try:
            return {"room", "speaker"} <= {
                line.split("\t")[1] for line in self._pactl("list", "short", "sinks").splitlines()
            }
        except RuntimeError:
            return False

    def _pactl(self, *arguments: str) -> str:
        done = subprocess.run(
            ["pactl", *arguments],
            env={**os.environ, **self.env, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"pactl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


class Recording:
    """What was recorded so far; it may be looked at while it grows."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._data = bytearray()
        self._started_s = float("inf")
        self._lock = threading.Lock()

    @property
    def samples(self) -> Samples:
        """Everything so far, int16 mono at ``rate``."""
        with self._lock:
            return np.frombuffer(bytes(self._data[: len(self._data) // 2 * 2]), dtype=np.int16)

    @property
    def started_s(self) -> float:
        """``time.monotonic()`` at which the first sample sounded, some 10 ms late at most.

        Every block that arrives bounds it from above; the bound that is closest counts.
        """
        return self._started_s

    def wait_for(self, seconds: float, timeout_s: float = 10.0) -> None:
        """Return once ``seconds`` of sound have been recorded in all. Raises TimeoutError."""
        give_up_s = time.monotonic() + timeout_s
        while len(self._data) < 2 * round(seconds * self.rate):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"only {len(self._data) / 2 / self.rate:.2f} s were recorded")
            time.sleep(0.01)

    def heard_from(self, part: Samples) -> int | None:
        """Index at which exactly the samples of ``part`` begin, bit for bit; None if they are not there."""
        at = self.samples.tobytes().find(part.tobytes())
        while at >= 0 and at % 2:
            at = self.samples.tobytes().find(part.tobytes(), at + 1)
        return at // 2 if at >= 0 else None

    def wait_to_hear(self, part: Samples, timeout_s: float = 10.0) -> int:
        """Index at which ``part`` begins, waiting until it has come. Raises TimeoutError."""
        give_up_s = time.monotonic() + timeout_s
        while (at := self.heard_from(part)) is None:
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"not heard within {timeout_s:.0f} s")
            time.sleep(0.02)
        return at

    def _read(self, recorder: subprocess.Popen[bytes]) -> None:
        assert recorder.stdout is not None
        while block := os.read(recorder.stdout.fileno(), 65536):
            now_s = time.monotonic()
            with self._lock:
                self._data += block
                self._started_s = min(self._started_s, now_s - len(self._data) / 2 / self.rate)


_FORMAT = ("--format=s16le", "--channels=1", "--raw")


def _null_sink(place: Place) -> str:
    """Arguments of one sink. One that may rewind renders seconds ahead, stalls each new stream and loses its head."""
    rate = ROOM_RATE if place == "room" else SPEAKER_RATE
    return f"sink_name={place} rate={rate} channels=1 format=s16le norewinds=1"
