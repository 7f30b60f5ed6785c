"""Settings: what is refused, in one line that says what, where and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pads_runtime import config
from pads_runtime.config import PadsSettings, load
from pads_runtime.errors import ConfigError
from pads_runtime.frames import GateMode


def refusal(*overrides: str, job: Path | str | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        load(job, overrides)
    text = str(refused.value)
    assert "\n" not in text
    assert refused.value.exit_code == 2
    return text


def job_of(tmp_path: Path, content: str | bytes, name: str = "job.yaml") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_the_shipped_settings_are_those_of_the_code_but_for_what_the_file_changes() -> None:
    assert load().model_dump().keys() == PadsSettings().model_dump().keys()


def test_an_override_reaches_its_setting_with_its_type() -> None:
    settings = load(None, ["gate.theta_end=0.8", "gate.mode=never", "engine.seed=7", "vad.window_s=0.4"])
    assert (settings.gate.theta_end, settings.gate.mode) == (0.8, GateMode.NEVER)
    assert (settings.engine.seed, settings.vad.window_s) == (7, 0.4)


def test_later_overrides_win_and_a_text_may_hold_an_equals_sign() -> None:
    settings = load(None, ["engine.seed=1", "engine.seed=2", "engine.system_prompt=Say x=1."])
    assert (settings.engine.seed, settings.engine.system_prompt) == (2, "Say x=1.")


def test_an_empty_override_is_an_empty_text() -> None:
    assert load(None, ["engine.system_prompt="]).engine.system_prompt == ""


def test_a_job_file_changes_what_it_names_and_an_override_wins_over_it(tmp_path: Path) -> None:
    job = job_of(tmp_path, "gate: {theta_end: 0.7, theta_deep: 0.1}\nengine: {seed: 5}\n")
    settings = load(job, ["gate.theta_end=0.9"])
    assert (settings.gate.theta_end, settings.gate.theta_deep, settings.engine.seed) == (0.9, 0.1, 5)
    assert settings.gate.mode == load().gate.mode
    assert settings.vad == load().vad


def test_an_empty_job_file_changes_nothing(tmp_path: Path) -> None:
    assert load(job_of(tmp_path, "# nothing yet\n")) == load()


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("gate.theta_ned=0.5", "unknown setting 'gate.theta_ned'; did you mean 'gate.theta_end'?"),
        ("gait.mode=and", "unknown setting 'gait'"),
        ("engine.n_ctxt=512", "did you mean 'engine.n_ctx'?"),
        ("zzz=1", "known keys: audio.channel"),
        ("gate.theta_end=1.5", "setting 'gate.theta_end' = 1.5: Input should be less than or equal to 1"),
        ("gate.theta_end=-0.1", "greater than or equal to 0"),
        ("gate.theta_end=.nan", "setting 'gate.theta_end'"),
        ("gate.theta_end=high", "setting 'gate.theta_end' = 'high'"),
        ("gate.mode=maybe", "'and', 'turn_only', 'act_only', 'always' or 'never'"),
        ("vad.pause_s=.inf", "setting 'vad.pause_s' = inf"),
        ("vad.window_s=.nan", "setting 'vad.window_s' = nan"),
        ("engine.temperature=.nan", "setting 'engine.temperature'"),
        ("engine.n_ctx=0", "setting 'engine.n_ctx' = 0"),
        ("engine.threads=two", "setting 'engine.threads' = 'two'"),
        ("turn.unsure=0.9", "turn.unsure must be below turn.sure"),
        ("turn.confirm_min_s=5", "turn.confirm_min_s must not exceed turn.confirm_max_s"),
        ("gate=0.5", "setting 'gate' = 0.5"),
        ("gate=[1, 2]", "setting 'gate'"),
        ("gate.mode.sub=1", "setting 'gate.mode'"),
        ("gate..mode=and", "unknown setting 'gate.'"),
        ("gate.theta_end", "is not of the form section.key=value"),
        ("=0.5", "is not of the form section.key=value"),
        ("", "is not of the form section.key=value"),
        ("engine.seed=2024-13-45", "setting 'engine.seed' = '2024-13-45'"),
        ("engine.seed=[1", "setting 'engine.seed' = '[1'"),
        ("engine.seed=!!int x", "setting 'engine.seed'"),
        ("engine.seed=&a [*a]", "setting 'engine.seed'"),
        ("engine.seed=" + "[" * 5000, "setting 'engine.seed'"),
        ("turn.max_turn_s=1e999", "setting 'turn.max_turn_s'"),
    ],
)
def test_a_wrong_override_is_refused_by_name(override: str, says: str) -> None:
    assert says in refusal(override)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("gate: {theta_end: 0.5", "is not valid YAML"),
        ("gate:\n\t- x", "is not valid YAML"),
        ("a: &x [*x, !!python/object:os.system 1]", "is not valid YAML"),
        ("engine: {seed: 2024-13-45}", "is not valid YAML"),
        (b"gate: {mode: \xff}", "is not UTF-8 text"),
        ("\x00", "is not valid YAML"),
        ("- just\n- a list", "must hold 'section: {key: value}'"),
        ("text", "must hold 'section: {key: value}'"),
        ("gate: {theta_end: 7}", "setting 'gate.theta_end' = 7"),
        ("gait: {}", "unknown setting 'gait'; did you mean"),
        ("gate: {1: 2}", "gate.1"),
        ("1: 2", "1"),
        ("gate:", "setting 'gate' = None"),
    ],
)
def test_a_wrong_job_file_is_refused_by_name(tmp_path: Path, content: str | bytes, says: str) -> None:
    assert says in refusal(job=job_of(tmp_path, content))


def test_a_missing_job_file_names_the_known_ones(tmp_path: Path) -> None:
    assert "settings file 'no-such-job' not found; give a path or one of: " in refusal(job="no-such-job")
    assert "not found" in refusal(job=tmp_path)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(self: Path, encoding: str) -> str:
        raise PermissionError(13, "Permission denied")

    path = job_of(tmp_path, "{}")
    monkeypatch.setattr(Path, "read_text", deny)
    assert "cannot be read: Permission denied" in refusal(job=path)


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().gate.theta_end = 0.1  # type: ignore[misc]


def test_costs_are_read_by_path_and_refused_by_name(tmp_path: Path) -> None:
    names = [name for name in config.Costs.model_fields if name != "note"]
    whole = "note: round numbers\n" + "".join(f"{name}: 0.5\n" for name in names)
    assert config.load_costs(job_of(tmp_path, whole)).decode_step_s == 0.5
    with pytest.raises(ConfigError, match="setting 'rollback_s' is missing"):
        config.load_costs(job_of(tmp_path, whole.replace("rollback_s: 0.5\n", "")))
    with pytest.raises(ConfigError, match="unknown setting 'rollback_ms'"):
        config.load_costs(job_of(tmp_path, whole + "rollback_ms: 1\n"))
    with pytest.raises(ConfigError, match="decode_step_s"):
        config.load_costs(job_of(tmp_path, whole.replace("decode_step_s: 0.5", "decode_step_s: -1")))


@pytest.mark.parametrize("path", sorted((config.CONFIG_DIR / "costs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_cost_table_says_with_a_tag_where_it_comes_from(path: Path) -> None:
    costs = config.load_costs(path.stem)
    assert any(f"[{tag}" in costs.note for tag in ("MEASURED", "DESCRIPTIVE", "EXTRAPOLATED"))
    assert ("EXTRAPOLATED" in costs.note) == (path.stem != "dev-host")


@given(st.text(max_size=12), st.text(max_size=12))
def test_no_override_raises_anything_but_a_config_error(key: str, value: str) -> None:
    for text in (f"{key}={value}", f"gate.{key}={value}", f"gate.theta_end={value}", f"{key}{value}"):
        try:
            load(None, [text])
        except ConfigError as refused:
            assert "\n" not in str(refused)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["engine.exit_layer=0"],
            "setting 'engine.exit_layer.* = 0: should be none, auto or a whole number of 1 to 999",
        ),
        (["engine.exit_layer=deep"], "should be none, auto or a whole number"),
        (["engine.draft_len=9"], "should be auto or a whole number of 1 to 8"),
        (["engine.serve=confident"], "confident needs an exit"),
        (["engine.exit_layer=auto", "engine.serve=confident"], "confident needs an exit"),
        (["engine.follow=shallow"], "shallow needs an exit"),
        (["engine.follow=deep"], "'none', 'shallow', 'full' or 'auto'"),
    ],
)
def test_depths_that_cannot_be_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(None, overrides)


def test_depths_are_numbers_or_words() -> None:
    engine = load(None, ["engine.exit_layer=15", "engine.draft_len=auto", "engine.follow=shallow"]).engine
    assert (engine.exit_layer, engine.draft_len) == (15, "auto")


def test_off_is_a_word_where_it_is_one_of_the_choices() -> None:
    assert load("talk", ["audio.echo=off"]).audio.echo == "off"
