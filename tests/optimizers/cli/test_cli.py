import os
import re
import subprocess
import sys

import pytest

from optimizers import __version__
from optimizers.cli import main
from optimizers.errors import PenstockError


@pytest.mark.parametrize("arguments", [[], ["no-such-command"]])
def test_a_missing_or_unknown_command_ends_with_the_usage(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)

    assert "usage: penstock" in capsys.readouterr().err


def test_it_is_installed_as_a_command():
    code = "from importlib.metadata import entry_points as e; print(*e(name='penstock'))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "optimizers.cli:main" in shown.stdout


def test_it_tells_its_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])

    assert capsys.readouterr().out.strip() == f"penstock {__version__}"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["strategies", "workloads", "--help"])
def test_a_command_whose_output_nobody_reads_ends_well(command, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    code = "from optimizers.cli import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, command],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x\ny"), "KeyError: 'x\\\\ny'; Penstock did not foresee this, please report it"),
        (MemoryError("21 TiB"), "there is not memory enough (21 TiB); ask for less"),
        (BrokenPipeError(32, "Broken pipe"), "BrokenPipeError: .*did not foresee"),
        (PenstockError("no\n  way"), "no way"),
    ],
)
def test_every_error_is_one_line_and_exit_code_2(monkeypatch, capsys, tmp_path, error, words):
    def fail(*_):
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("optimizers.cli.strategies.registered", fail)

    assert main(["strategies"]) == 2

    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.startswith("penstock: ")
    assert re.search(words.replace("(", r"\(").replace(")", r"\)"), shown)
    with pytest.raises(type(error)):
        main(["--debug", "strategies"])
    assert "PENSTOCK_DEBUG" not in os.environ


def test_what_led_to_an_error_that_nobody_foresaw_is_kept(monkeypatch, capsys, tmp_path):
    def fail(*_):
        raise KeyError("x")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("optimizers.cli.strategies.registered", fail)

    main(["strategies"])

    (file,) = tmp_path.iterdir()
    assert f"what led to it is in {file}" in capsys.readouterr().err
    assert "in fail" in file.read_text()


UNNEEDED = {
    "compare": set(),
    "strategies": {"pyspark", "pyarrow", "rich"},
    "workloads": {"pyspark", "rich"},
    "state": {"pyspark"},
    "doctor": {"pyspark", "pyarrow", "rich"},
}


@pytest.mark.parametrize("command", UNNEEDED)
def test_a_command_explains_itself_and_imports_what_it_needs_alone(command):
    code = (
        "import sys; from optimizers.cli import main\n"
        f"try: main([{command!r}, '--help'])\n"
        "except SystemExit: print('imported:', *sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert f"usage: penstock {command}" in shown.stdout
    assert not UNNEEDED[command] & set(shown.stdout.rpartition("imported:")[2].split())
