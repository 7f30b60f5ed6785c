"""From settings to stages: which class stands behind each Protocol, and where its model is.

Heavy libraries are imported here, when a conversation is wanted, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from .acts.protocol import ActClassifier
from .asr.protocol import Recognizer
from .audio.protocol import AudioSink, AudioSource
from .config import (
    ActSettings,
    EngineSettings,
    PadsSettings,
    RecognizerSettings,
    SpeechSettings,
    TurnSettings,
    load_costs,
)
from .crew import Stages
from .engine.protocol import ReplyEngine
from .errors import ConfigError, ModelError, ModelMissing
from .models import Registry
from .models.hashing import sha256_of
from .reply import Splitter
from .speech.protocol import Synthesizer
from .turn.protocol import TurnEndPredictor, VoiceActivity


@dataclass(frozen=True)
class Parts:
    """All models of a conversation, loaded; what is missing is who speaks and where the voice goes."""

    voice_activity: VoiceActivity
    predictor: TurnEndPredictor
    recognizer: Recognizer
    acts: ActClassifier
    engine: ReplyEngine
    synthesizer: Synthesizer
    splitter: Callable[[], Splitter]

    def between(self, source: AudioSource, sink: AudioSink) -> Stages:
        """The stages of a conversation that hears ``source`` and speaks into ``sink``."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return Stages(source=source, sink=sink, **parts)


def load(settings: PadsSettings, registry: Registry, voice: Synthesizer | None = None) -> Parts:
    """Load every model; takes seconds, so it comes before the session's clock starts.

    ``voice`` is a synthesiser that is loaded already. Raises ModelError, SetupError, ConfigError.
    """
    from .speech.phrases import PhraseSplitter
    from .turn.voice_activity import WebRtcVoiceActivity

    return Parts(
        voice_activity=WebRtcVoiceActivity(settings.vad),
        predictor=predictor(settings.turn, registry),
        recognizer=recognizer(settings.asr, registry),
        acts=(classifier := acts(settings.acts, registry)),
        engine=engine(settings.engine, registry, classifier),
        synthesizer=voice or synthesizer(settings.speech, registry),
        splitter=lambda: PhraseSplitter(settings.speech),
    )


def engine(settings: EngineSettings, registry: Registry, classifier: ActClassifier | None = None) -> ReplyEngine:
    """The language model. ``classifier`` is for ``engine.exit_policy: act``, which cannot do without."""
    from .engine.engine import LlamaEngine

    path = registry.resolve(settings.model)
    if settings.exit_layer == "none":
        return LlamaEngine.load(path, settings)
    from .engine.choose import controller
    from .engine.translators import Translators

    name = translator_name(settings, registry)
    fitted = Translators.load(registry.resolve(name), _model_sha256(settings.model, registry)) if name else None
    p_deep = classifier.p_deep if classifier is not None else None
    return LlamaEngine.load(path, settings, controller(settings, path, fitted), fitted, p_deep)


def translator_name(settings: EngineSettings, registry: Registry) -> str | None:
    """The translators that the engine would use: a registry name or a path, or None.

    ``auto`` is the first of kind ``exits`` on this machine that was fitted for the model. Raises ModelError.
    """
    if settings.exit_layer == "none" or settings.translator == "none":
        return None
    if settings.translator != "auto":
        return settings.translator
    from .engine.translators import fitted_for

    candidates = [name for name, entry in registry.entries.items() if entry.kind == "exits"]
    wanted = _model_sha256(settings.model, registry) if candidates else ""
    for name in candidates:
        try:
            if fitted_for(registry.path(name)) == wanted:
                return name
        except ModelMissing:
            continue
    return None


def _model_sha256(name: str, registry: Registry) -> str:
    pinned = registry.entry(name).files[0].sha256 if name in registry.entries else None
    return pinned or sha256_of(registry.resolve(name))


def predictor(settings: TurnSettings, registry: Registry) -> TurnEndPredictor:
    """The turn-end predictor."""
    if settings.predictor == "silence":
        from .turn.silence import SilencePredictor

        return SilencePredictor(settings.predict_at_s)
    if settings.predictor == "vap":
        from .turn.vap import VapPredictor

        path = registry.resolve(settings.vap_model)
        return VapPredictor(path, settings.predict_at_s, settings.speech_every_s, settings.sure)
    from .turn.smart_turn import SmartTurnPredictor

    return SmartTurnPredictor(registry.resolve(settings.model), settings.predict_at_s, settings.sure)


def recognizer(settings: RecognizerSettings, registry: Registry) -> Recognizer:
    """Speech to text."""
    if settings.kind == "reference":
        if settings.reference is None:
            raise ConfigError("asr.kind is 'reference' but asr.reference names no file of word timings")
        from .asr.reference import ReferenceRecognizer

        return ReferenceRecognizer.from_file(settings.reference, settings.reference_only)
    if settings.kind == "external":
        from .asr.external import ExternalRecognizer

        return ExternalRecognizer()
    from .asr.whisper import WhisperRecognizer

    return WhisperRecognizer(registry.resolve(settings.model), settings.threads, settings.window_s)


def acts(settings: ActSettings, registry: Registry) -> ActClassifier:
    """The dialogue-act classifier."""
    from .acts.classifier import TfidfActClassifier

    return TfidfActClassifier.load(registry.resolve(settings.model))


def synthesizer(settings: SpeechSettings, registry: Registry) -> Synthesizer:
    """Text to speech."""
    if settings.kind == "piper":
        from .speech.piper_voice import PiperVoice

        return PiperVoice(_only_onnx(registry.resolve(settings.model)), settings)
    from .speech.hibari_voice import HibariVoice

    return HibariVoice(settings)


def check(settings: PadsSettings, registry: Registry) -> None:
    """Whether all that the settings name is here, before time goes into loading. Raises ModelError, UsageError."""
    load_costs(settings.clock.costs)
    if settings.asr.kind == "reference":
        recognizer(settings.asr, registry)
    for name in _model_names(settings):
        registry.resolve(name)


def model_hashes(settings: PadsSettings, registry: Registry) -> dict[str, str]:
    """sha256 of every model the settings use, as the registry states them; a path outside it is hashed."""
    hashes: dict[str, str] = {}
    for name in _model_names(settings):
        if name in registry.entries:
            for file in registry.entry(name).files:
                hashes[f"{name}/{file.name}"] = file.sha256 or "not pinned"
        else:
            hashes[name] = _sha256_if_readable(Path(name))
    return hashes


def _model_names(settings: PadsSettings) -> list[str]:
    names = [settings.engine.model, settings.acts.model]
    if settings.engine.exit_layer != "none" and settings.engine.translator not in ("none", "auto"):
        names.append(settings.engine.translator)
    if settings.turn.predictor == "smart_turn":
        names.append(settings.turn.model)
    if settings.turn.predictor == "vap":
        names.append(settings.turn.vap_model)
    if settings.asr.kind == "whisper":
        names.append(settings.asr.model)
    names.append("hibari-heart" if settings.speech.kind == "hibari" else settings.speech.model)
    return names


def _sha256_if_readable(path: Path) -> str:
    try:
        return sha256_of(path)
    except ModelError:
        return "unreadable"


def _only_onnx(path: Path) -> Path:
    return next(path.glob("*.onnx"), path) if path.is_dir() else path
