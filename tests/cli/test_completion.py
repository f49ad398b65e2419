"""`tilewright completion`: the shells' scripts, and what they complete."""

import os
import subprocess
import sys

import pytest

from tilewright.cli import completion
from tilewright.cli.main import main

_REQUEST = """
tilewright() {{ {python} -m tilewright "$@"; }}
env() {{ command env "${{@:1:3}}" {python} -m tilewright; }}  # the script calls: env A=.. B=.. C=.. tilewright
eval "$(tilewright completion bash)"
COMP_WORDS=(tilewright ge) COMP_CWORD=1
_tilewright_completion tilewright
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(os.name != "posix", reason="needs bash")
def test_bash_completes_a_command():
    run = subprocess.run(
        ["bash", "-c", _REQUEST.format(python=sys.executable)], capture_output=True, text=True
    )
    assert run.stdout.split() == ["generate"], run.stderr


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_scripts(shell, capsys):
    assert main(["completion", shell]) == 0
    assert f"_TILEWRIGHT_COMPLETE=complete_{shell}" in capsys.readouterr().out


@pytest.mark.parametrize(("shell", "line"), [("zsh", '"generate"'), ("fish", "generate\t")])
def test_other_shells_complete_a_command(shell, line, monkeypatch, capsys):
    monkeypatch.setenv("_TILEWRIGHT_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "tilewright ge")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert main([]) == 0
    assert line in capsys.readouterr().out


def test_unknown_shell(capsys):
    assert main(["completion", "tcsh"]) == 1
    assert "unknown shell 'tcsh'" in capsys.readouterr().err


def test_values():
    assert completion.targets("sm_9") == ["sm_90a"]
    assert completion.codes("p") == ["ptx"]
    assert completion.shells("z") == ["zsh"]
    assert completion.passes("licm,raise") == ["licm,raise-access"]
