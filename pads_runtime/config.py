"""Settings: one frozen model per subsystem, read from YAML once at the edge, unknown keys refused by name.

``load(path, overrides)`` merges ``configs/default.yaml``, the job's own file and ``key=value`` overrides, in that
order. A wrong key names the nearest known one; a wrong value says what is allowed. Both raise ConfigError.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from .errors import ConfigError
from .frames import GateMode

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

_NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""What the YAML reader raises; the last two for an impossible date, a bad number, or brackets without end."""

ROOT = Path(__file__).resolve().parent.parent
CONFIG_DIR = ROOT / "configs"


class Settings(BaseModel):
    """Base: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


S = TypeVar("S", bound=Settings)


def _off(value: Any) -> Any:
    """YAML reads an unquoted off as a truth value."""
    return "off" if value is False else value


class AudioSettings(Settings):
    """Source and sink."""

    channel: Literal["mix", "left", "right"] = "mix"
    """Which channel of a stereo recording is the user."""
    queue_frames: Count = 50
    """Frames that may wait for the session; beyond it the oldest is dropped and counted."""
    input_device: int | str | None = None
    """Microphone of a live talk: its number or (part of) its name in `pads devices`; null is the system's default."""
    output_device: int | str | None = None
    """Loudspeaker, likewise."""
    echo: Annotated[Literal["auto", "webrtc", "headset", "off"], BeforeValidator(_off)] = "auto"
    """What keeps the agent from hearing itself. webrtc: an echo canceller; headset: nothing has to; off: nothing does;
    auto: headset where a device's name says so, else webrtc."""
    input_latency_s: Annotated[float, Field(gt=0.0, le=1.0)] = 0.04
    """Buffer of the microphone: how late a callback may come before audio is lost."""
    output_latency_s: Annotated[float, Field(gt=0.0, le=1.0)] = 0.01
    """Buffer of the loudspeaker: how late a callback may come before it clicks, and what an interruption cannot cut."""
    dead_after_s: Annotated[float, Field(gt=0.0, le=60.0)] = 2.0
    """A device from which nothing came for so long is taken for lost, and opened again."""


class VoiceActivitySettings(Settings):
    """webrtcvad with hysteresis."""

    aggressiveness: Annotated[int, Field(ge=0, le=3)] = 3
    start_s: Seconds = 0.1
    """Voiced time within ``window_s`` that begins speech."""
    window_s: Seconds = 0.2
    pause_s: Seconds = 0.2
    """Unvoiced time that declares a pause."""
    preroll_s: Seconds = 0.3
    """Audio before the declared onset that belongs to the turn."""


class TurnSettings(Settings):
    """Turn-end predictor and endpointing."""

    predictor: Literal["smart_turn", "silence", "vap"] = "smart_turn"
    model: str = "smart-turn-v3.2"
    """The network of ``predictor: smart_turn``."""
    vap_model: str = "vap-turn"
    """The network of ``predictor: vap``: a name from models/registry.yaml, or a file that training made."""
    speech_every_s: Seconds = 0.1
    """How often ``predictor: vap`` is asked while the user speaks; 0 is never."""
    predict_at_s: tuple[Seconds, ...] = (0.16, 0.5)
    """Silence lengths, from 0.1 on, at which the predictor is asked, until it is ``sure``. They may lie before
    ``vad.pause_s``. Much later ones would tell it little but that it is silent."""
    sure: Probability = 0.8
    """At this p_end or above the turn is confirmed after ``confirm_min_s`` of silence."""
    unsure: Probability = 0.2
    """At this p_end or below only after ``confirm_max_s``."""
    confirm_min_s: Seconds = 0.7
    confirm_max_s: Seconds = 1.8
    max_turn_s: Seconds = 60.0
    """A turn that never pauses (noise, a fan) is closed after this long."""
    transcript_wait_s: Seconds = 3.0
    """How long a confirmed turn waits for its transcript before it is given up."""

    @model_validator(mode="after")
    def _ordered(self) -> TurnSettings:
        if not self.unsure < self.sure:
            raise ValueError("turn.unsure must be below turn.sure")
        if not self.confirm_min_s <= self.confirm_max_s:
            raise ValueError("turn.confirm_min_s must not exceed turn.confirm_max_s")
        return self


class RecognizerSettings(Settings):
    """Speech to text."""

    kind: Literal["whisper", "reference", "external"] = "whisper"
    """``external``: transcripts come from outside, by the bus or another program."""
    model: str = "whisper-tiny.en"
    threads: Count = 2
    begin: Literal["speech", "confirm"] = "speech"
    """Read while the user speaks, or only once the turn is confirmed; the latter is there for comparison."""
    partial_every_s: Seconds = 0.5
    """New audio that starts the next partial."""
    window_s: Annotated[float, Field(gt=0.5, le=30.0)] = 8.0
    """Longest audio given to the encoder at once; older words of a long turn are settled before it slides."""
    reference: Path | None = None
    """Word timings (TSV) for ``kind: reference``."""
    reference_only: dict[str, str] = {}
    """Which rows of it are played, by column, e.g. ``{dialogue: MUL1423, channel: A}``."""


class ActSettings(Settings):
    """Dialogue-act classifier."""

    model: str = "acts-dailydialog"


class GateSettings(Settings):
    """When to prepare."""

    mode: GateMode = GateMode.AND
    theta_end: Probability = 0.5
    theta_deep: Probability = 0.5


def _words_or(words: tuple[str, ...], low: int, high: int) -> AfterValidator:
    def check(value: int | str) -> int | str:
        if value not in words and not (isinstance(value, int) and low <= value <= high):
            raise ValueError(f"should be {', '.join(words)} or a whole number of {low} to {high}")
        return value

    return AfterValidator(check)


ExitLayer = Annotated[int | str, _words_or(("none", "auto"), 1, 999)]
DraftLength = Annotated[int | str, _words_or(("auto",), 1, 8)]


class EngineSettings(Settings):
    """The language model."""

    model: str = "smollm2-135m-instruct"
    """A name from models/registry.yaml, or the path of a GGUF file."""
    n_ctx: Annotated[int, Field(ge=128)] = 2048
    n_batch: Count = 512
    threads: Count = 2
    """Threads of passes over several tokens (prompts, verification)."""
    decode_threads: Count = 1
    """Threads of a pass over one token. Waking a second one costs a small model more than it saves; from about a
    billion parameters on, set it to the number of cores."""
    max_reply_tokens: Count = 48
    temperature: Annotated[float, Field(ge=0.0, le=5.0)] = 0.0
    """0 is greedy."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.95
    top_k: Annotated[int, Field(ge=0)] = 40
    seed: int = 20260923
    follow: Literal["none", "shallow", "full", "auto"] = "full"
    """How deep the stable transcript is prefilled while the user speaks; auto is full."""
    exit_layer: ExitLayer = "none"
    """Where drafts leave the model: none is plain decoding, auto what `pads calibrate` found to pay, else plain."""
    draft_len: DraftLength = "auto"
    """Tokens drafted before the rest of the layers verifies them."""
    draft_vocab: Annotated[int, Field(ge=0)] = 8192
    """Drafts choose among the first so many tokens, rounded down to a multiple of 64; 0 is all."""
    translator: str = "auto"
    """What turns an exit's state into the last layer's, for drafts: none, a file, or auto: the registry's, if any."""
    sampling_rule: Literal["coupled", "leviathan"] = "coupled"
    """coupled serves what plain decoding would, token for token; leviathan only the same distribution."""
    serve: Literal["deep", "confident"] = "deep"
    """deep: every token is the whole model's. confident: a sure token leaves at the exit; approximate."""
    exit_policy: Literal["top", "margin", "act"] = "top"
    """What makes a token sure: the probability of the exit's likeliest token, how far that is ahead of the second, or
    the probability that the user's turn is neither question nor request (1 - p_deep)."""
    confident_threshold: Probability = 0.9
    """From which value of that a token is sure."""
    system_prompt: str = (
        "You are a friendly assistant in a spoken conversation. Answer in one or two short plain sentences."
    )

    @model_validator(mode="after")
    def _fits(self) -> EngineSettings:
        if self.serve == "confident" and not isinstance(self.exit_layer, int):
            raise ValueError("engine.serve: confident needs an exit: set engine.exit_layer to a number of layers")
        if self.follow == "shallow" and self.exit_layer == "none":
            raise ValueError(
                "engine.follow: shallow needs an exit: set engine.exit_layer to a number of layers or auto"
            )
        return self

    @property
    def by_act(self) -> bool:
        """Whether the engine asks what kind of turn it answers."""
        return self.serve == "confident" and self.exit_policy == "act"


class SpeechSettings(Settings):
    """Text to speech."""

    kind: Literal["hibari", "piper"] = "hibari"
    model: str = "joe-us-piper"
    """Voice of the piper backend, a name from models/registry.yaml."""
    speed: Annotated[float, Field(ge=0.5, le=2.0)] = 1.0
    threads: Count = 1
    ahead: bool = True
    """Whether a prepared reply's first phrases are made into sound before the turn is confirmed."""
    first_phrase_words: Count = 3
    """The first phrase may end at a comma once it has this many words."""
    max_phrase_chars: Annotated[int, Field(ge=20)] = 160


class BargeInSettings(Settings):
    """Speech over the agent."""

    min_speech_s: Seconds = 0.5
    """Shorter sound over the agent stops it only with a word like "stop"; sound that has surely lasted this long does
    with any words but backchannels, and holds the agent's voice while its words are not known."""
    backchannel_max_s: Seconds = 1.0
    """Longest "uh-huh": longer sound holds the agent's voice; longer turns of such words are answered."""
    resume_after_s: Seconds = 2.0
    """A held reply goes on where it stopped when no words have come for this long."""
    user_takes_turn: Probability = 0.75
    """At this p_now or above sound over the agent counts without the time that a pause takes to be declared."""
    agent_keeps_turn: Probability = 0.25
    """At this p_now or below it must last longer than a backchannel."""
    read_every_s: Seconds = 0.3
    """New audio that starts the next reading while the user speaks over the agent."""

    @model_validator(mode="after")
    def _ordered(self) -> BargeInSettings:
        if not self.agent_keeps_turn < self.user_takes_turn:
            raise ValueError("barge_in.agent_keeps_turn must be below barge_in.user_takes_turn")
        return self


class BusSettings(Settings):
    """MQTT. The password comes from ``password_file``, else the environment variable PADS_MQTT_PASSWORD, else
    ``password``; no record, log or message shows it."""

    enabled: bool = False
    host: Annotated[str, Field(min_length=1, max_length=253)] = "localhost"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0 is the usual one: 1883, with TLS 8883."""
    site: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "default"
    """Where this talk stands: part of every topic, and the siteId of Hermes messages."""
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    """A file that holds the password and nothing else."""
    tls: bool = False
    ca_file: Path | None = None
    """Certificates (PEM) to trust instead of the system's, for a broker with a certificate of one's own."""
    protocol: Literal["5", "3.1.1"] = "5"
    """The version of MQTT. Only 5 lets the broker hold back huge messages."""
    hermes: bool = False
    """Also the Hermes topics of Rhasspy-style homes."""
    hermes_transcripts: Literal["take", "give"] = "take"
    """take: hermes/asr/textCaptured of another recogniser is what the user said (with ``asr.kind: external``);
    give: PADS publishes there what its own recogniser heard."""
    announce_prepared: bool = False
    """Also tell when a reply is prepared and withdrawn; never what it says."""
    outbox: Count = 1000
    """Messages that may wait for the broker; beyond it the least important, oldest one is dropped and counted."""
    in_per_s: Annotated[float, Field(gt=0.0, le=1000.0)] = 20.0
    """Messages taken per second and topic, with twice as many at once; more are refused and counted."""
    max_in_bytes: Annotated[int, Field(ge=64, le=262144)] = 16384
    """Longest message taken."""
    timeout_s: Annotated[float, Field(gt=0.0, le=120.0)] = 10.0
    """How long the broker may take to connect or to acknowledge a message."""
    keepalive_s: Annotated[int, Field(ge=2, le=3600)] = 15
    """A silent connection is tried this often; the broker declares us gone after 1.5 times as long."""
    backoff_min_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 0.5
    """Wait before the first try to connect again; each further one is twice as long, up to ``backoff_max_s``."""
    backoff_max_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 30.0

    @model_validator(mode="after")
    def _fits(self) -> BusSettings:
        if self.backoff_min_s > self.backoff_max_s:
            raise ValueError("bus.backoff_min_s must not exceed bus.backoff_max_s")
        if self.ca_file is not None and not self.tls:
            raise ValueError("bus.ca_file is for TLS: set bus.tls to true")
        if not self.username and (self.password.get_secret_value() or self.password_file):
            raise ValueError("a password needs bus.username")
        return self


class ClockSettings(Settings):
    """Which clock drives the session."""

    kind: Literal["real", "virtual"] = "virtual"
    costs: str = "dev-host"
    """A file name in configs/costs/ or a path; read by the virtual clock only."""
    speed: Annotated[float, Field(ge=0.0)] = 0.0
    """Virtual seconds per wall second; 0 is as fast as the models allow."""


class DemoSettings(Settings):
    """The scripted talk of ``pads demo``."""

    script: str = "demo-script.yaml"
    """A file name in configs/ or a path."""


class TalkSettings(Settings):
    """A live talk."""

    record_minutes: Annotated[float, Field(ge=0.0, le=60.0)] = 0.0
    """How much of its sound is kept, both sides, and written as conversation.wav when it ends: the last so many
    minutes, 2 MB each in memory and 4 MB on disk. 0 keeps none; the words are in the trace in any case."""


class RunSettings(Settings):
    """Where run records go."""

    dir: Path = Path("runs")


class PadsSettings(Settings):
    """Everything."""

    audio: AudioSettings = AudioSettings()
    vad: VoiceActivitySettings = VoiceActivitySettings()
    turn: TurnSettings = TurnSettings()
    asr: RecognizerSettings = RecognizerSettings()
    acts: ActSettings = ActSettings()
    gate: GateSettings = GateSettings()
    engine: EngineSettings = EngineSettings()
    speech: SpeechSettings = SpeechSettings()
    barge_in: BargeInSettings = BargeInSettings()
    bus: BusSettings = BusSettings()
    clock: ClockSettings = ClockSettings()
    demo: DemoSettings = DemoSettings()
    talk: TalkSettings = TalkSettings()
    run: RunSettings = RunSettings()


class Costs(Settings):
    """Declared cost of each kind of model work, in seconds; what the virtual clock advances by."""

    note: str
    """Where the numbers come from, with their tag."""
    recognizer_base_s: Seconds
    recognizer_per_audio_s: Seconds
    """Per second of audio given to the encoder."""
    predictor_call_s: Seconds
    classifier_call_s: Seconds
    prefill_base_s: Seconds
    prefill_token_s: Seconds
    decode_step_s: Seconds
    shallow_step_s: Seconds
    deep_row_s: Seconds
    """Per token in a pass from the exit to the last layer."""
    rollback_s: Seconds
    synth_base_s: Seconds
    synth_per_char_s: Seconds


def load(job: str | Path | None = None, overrides: Iterable[str] = ()) -> PadsSettings:
    """Read configs/default.yaml, then ``job`` (a name in configs/ or a path), then ``a.b=value`` overrides.

    Raises ConfigError for an unknown key, a value out of range, a missing file or malformed YAML.
    """
    tree = read_yaml(CONFIG_DIR / "default.yaml")
    if job is not None:
        tree = _merge(tree, read_yaml(find_config(job)))
    for override in overrides:
        tree = _merge(tree, _parse_override(override))
    return validate(PadsSettings, tree)


def load_costs(name: str | Path) -> Costs:
    """Read a cost file by its name in configs/costs/ or by path. Raises ConfigError."""
    return validate(Costs, read_yaml(find_config(name, "costs")))


def find_config(name: str | Path, folder: str = "") -> Path:
    """The path of a settings file given by path or by name in configs/[folder]. Raises ConfigError."""
    as_path = Path(name)
    candidates = [as_path, CONFIG_DIR / folder / as_path, CONFIG_DIR / folder / f"{name}.yaml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    known = ", ".join(sorted(p.stem for p in (CONFIG_DIR / folder).glob("*.yaml")))
    raise ConfigError(f"settings file '{name}' not found; give a path or one of: {known}")


def validate(model: type[S], tree: Mapping[str, Any]) -> S:
    """Parse a plain tree into ``model``, or raise ConfigError with one line about the first fault."""
    try:
        return model.model_validate(tree)
    except ValidationError as exc:
        raise ConfigError(_one_line(_first_fault(model, exc))) from None


def _first_fault(model: type[BaseModel], exc: ValidationError) -> str:
    fault = exc.errors()[0]
    path = [str(part) for part in fault["loc"]]
    name = ".".join(path)
    if fault["type"] == "extra_forbidden":
        known = _known_keys(model)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"; did you mean '{near[0]}'?" if near else f"; known keys: {', '.join(known)}"
        return f"unknown setting '{name}'{hint}"
    if fault["type"] == "missing":
        return f"setting '{name}' is missing"
    reason = fault["msg"].removeprefix("Value error, ")
    hidden = isinstance(fault["input"], dict) or path[-1:] == ["password"]
    value = "" if hidden else f" = {fault['input']!r}"
    return f"setting '{name}'{value}: {reason}" if name else f"settings: {reason}"


def _known_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys += _known_keys(kind, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a plain tree. Raises ConfigError."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"settings file '{path}' cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"settings file '{path}' is not UTF-8 text") from None
    except _NOT_YAML as exc:
        raise ConfigError(f"settings file '{path}' is not valid YAML: {_one_line(exc)}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"settings file '{path}' must hold 'section: {{key: value}}'")
    return tree


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _parse_override(text: str) -> dict[str, Any]:
    path, equals, raw = text.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"override '{_one_line(text)}' is not of the form section.key=value")
    try:
        value: Any = yaml.safe_load(raw) if raw else ""
    except _NOT_YAML:
        value = raw
    for part in reversed(path.strip().split(".")):
        value = {part: value}
    tree: dict[str, Any] = value
    return tree
