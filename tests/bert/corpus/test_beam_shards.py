"""Apache Beam makes the records of a local run, on every engine."""

import contextlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import create_pretraining_data as program
from bert.corpus import beam_shards, pretraining_shards
from tests.support import locations, programs

_WORDS = pathlib.Path(locations.VOCAB_FILE).read_text("utf-8").split()[100:]
_SECONDS_TO_START = 120

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="needs Apache Beam: pip install -r requirements/beam.txt",
)
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None
    or importlib.util.find_spec("distributed") is None,
    reason="needs Beam and Dask: pip install -r requirements/beam.txt",
)


def _write_text(path, num_documents, seed):
    rng = random.Random(seed)
    documents = [
        "\n".join(
            " ".join(rng.choices(_WORDS, k=rng.randint(3, 20)))
            for _ in range(rng.randint(1, 12))
        )
        for _ in range(num_documents)
    ]
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def inputs(tmp_path):
    # The last document of the first file continues in the second.
    first = _write_text(tmp_path / "a.txt", 11, seed=1)
    return f"{first},{_write_text(tmp_path / 'b.txt', 3, seed=4)}"


def _options(input_file, output_file, **values):
    return program.Options(
        input_file=str(input_file),
        output_file=str(output_file),
        vocab_file=locations.VOCAB_FILE,
        dupe_factor=2,
        shard_documents=2,
        **values,
    )


def _content(folder):
    """Returns records and sidecars by name; moves them out of the way."""
    content = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix != ".lock"
    }
    shutil.rmtree(folder)
    return content


def test_beam_needs_shards():
    text = pretraining_shards.InputText(paths=("a",))
    with pytest.raises(
        ValueError, match="split the text with --shard_documents"
    ):
        beam_shards.make_shards(text, None, "DirectRunner", [])


def test_arguments_are_options_of_a_runner(tmp_path, inputs):
    for values, arguments in (
        ({}, ["--direct_num_workers=2"]),
        ({"runner": "Spunk"}, ["--direct_num_workers", "2"]),
    ):
        message = f"Only flags are expected.*got {' '.join(arguments)}"
        with pytest.raises(ValueError, match=message):
            program.run(_options(inputs, tmp_path / "x", **values), arguments)


class EngineError(Exception):
    """An error of an engine, which may be of any type."""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (EngineError("no worker\nis left"), "Spunk failed: no worker is left "),
        (EngineError(), r"Spunk failed: EngineError\(\) "),
        (
            RuntimeError("Traceback ...\n  File ...\nOSError: full [Make]\n"),
            r"Spunk failed: OSError: full \[Make\] All workers, and ",
        ),
        (
            EngineError("<status = DEADLINE_EXCEEDED>"),
            "no answer within --job_server_timeout, which is for the complete",
        ),
    ],
)
def test_errors_of_an_engine_are_one_line(error, message):
    """No engine fails in all these ways for a test."""
    with (
        pytest.raises(RuntimeError, match=message) as raised,
        beam_shards._explained("Spunk"),
    ):
        raise error
    assert "in their PYTHONPATH. Run the same command" in str(raised.value)
    assert "\n" not in str(raised.value)


@needs_beam
def test_unknown_runners_and_missing_packages_are_named(tmp_path, inputs):
    def run(runner):
        program.run(_options(inputs, tmp_path / "out/x", runner=runner))

    with pytest.raises(ValueError, match="Unexpected pipeline runner: Spunk"):
        run("Spunk")
    with pytest.raises(ValueError, match=r"needs a package .*'nowhere'"):
        run("nowhere.Runner")


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def _processes(folder, *commands, ready, repository=str(locations.ROOT)):
    """Runs modules of Python in other working folders, as on a cluster.

    Args:
        folder: for their logs.
        *commands: of each, the module and its arguments.
        ready: a port that one of them listens on.
        repository: their `PYTHONPATH`.
    """
    environment = os.environ | {
        "PYTHONPATH": repository,
        # The pool of workers of Beam starts `python`.
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    running = []
    try:
        for number, command in enumerate(commands):
            place = folder / f"process{number}"
            place.mkdir()
            with (place / "log").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", *command],
                        cwd=place,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        deadline = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", ready), 1).close()
                break
            time.sleep(0.2)
        yield running
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


def _dask(folder, num_workers=2, repository=str(locations.ROOT)):
    """Returns the option for a cluster of Dask, and its processes."""
    port = _free_port()
    address = f"tcp://127.0.0.1:{port}"
    local = ("--host=127.0.0.1", "--no-dashboard")
    worker = ("distributed.cli.dask_worker", address, "--nthreads=1", *local)
    ports = (f"--port={port}", f"--dashboard-address=:{_free_port()}")
    scheduler = ("distributed.cli.dask_scheduler", *ports, *local)
    commands = (scheduler, *[worker] * num_workers)
    option = f"--dask_client_address={address}"
    return option, _processes(
        folder, *commands, ready=port, repository=repository
    )


def _program(inputs, output, runner, *arguments, folder=locations.ROOT):
    """Runs the program on an engine."""
    return programs.python(
        *(
            locations.ROOT / "create_pretraining_data.py",
            f"--input_file={inputs}",
        ),
        *(f"--output_file={output}", f"--vocab_file={locations.VOCAB_FILE}"),
        *("--dupe_factor=2", "--shard_documents=2", f"--runner={runner}"),
        *("--", *arguments),
        cwd=folder,
    )


def _records(content):
    return sum(
        json.loads(value)["num_records"]
        for name, value in content.items()
        if name.endswith(".meta.json")
    )


@needs_beam
@pytest.mark.slow
def test_beam_makes_the_same_records(tmp_path, inputs):
    output = tmp_path / "out/x"
    program.run(_options(inputs, output, num_workers=1))
    wanted = _content(tmp_path / "out")
    done = _program(
        *(inputs, output, "DirectRunner", "--direct_num_workers=2"),
        "--direct_running_mode=multi_processing",
        folder=tmp_path,  # Where Python finds none of our modules.
    )
    assert done.returncode == 0, done.stderr
    assert _content(tmp_path / "out") == wanted
    # A file ends no document.
    assert "Counted 13 documents: 7 shards." in done.stderr
    stated = f"sidecars of 7 shards state {_records(wanted)} instances."
    assert stated in done.stderr


@needs_dask
@pytest.mark.slow
def test_a_cluster_of_dask_makes_the_same_records(
    tmp_path, inputs, monkeypatch
):
    # Relative paths, which are others in the working folders of the workers.
    monkeypatch.chdir(tmp_path)
    program.run(_options("a.txt,b.txt", "out/x", num_workers=1))
    wanted = _content(tmp_path / "out")
    option, cluster = _dask(tmp_path)
    with cluster:
        done = _program(
            "a.txt,b.txt", "out/x", "DaskRunner", option, folder=tmp_path
        )
        assert done.returncode == 0, done.stderr
    assert _content(tmp_path / "out") == wanted
    stated = f"sidecars of 7 shards state {_records(wanted)} instances."
    assert stated in done.stderr


@needs_dask
@pytest.mark.slow
def test_the_shards_of_a_worker_that_is_killed_are_made_by_the_other(tmp_path):
    text = _write_text(tmp_path / "text.txt", 1000, seed=2)
    output = tmp_path / "out/x"
    program.run(_options(text, output, num_workers=1))
    wanted = _content(tmp_path / "out")
    option, cluster = _dask(tmp_path)

    def kill_one(workers):
        while len(list(output.parent.glob("*.meta.json"))) < 30:
            time.sleep(0.05)
        os.killpg(workers[0].pid, signal.SIGKILL)

    with cluster as (_, *workers):
        killer = threading.Thread(target=kill_one, args=[workers], daemon=True)
        killer.start()
        done = _program(text, output, "dask", option)
        killer.join(_SECONDS_TO_START)
        assert workers[0].poll() is not None
    assert done.returncode == 0, done.stderr
    left = {
        name: value
        for name, value in _content(tmp_path / "out").items()
        # The worker may have been killed while it wrote a file.
        if not name.endswith(".partial")
    }
    assert left == wanted


@needs_dask
@pytest.mark.slow
def test_a_cluster_that_is_missing_is_named(tmp_path, inputs):
    done = _program(
        inputs,
        tmp_path / "out/x",
        "dask",
        f"--dask_client_address=tcp://127.0.0.1:{_free_port()}",
        "--dask_connection_timeout=2",
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "Timed out trying to connect to tcp://127.0.0.1:" in last


@needs_dask
@pytest.mark.slow
def test_a_cluster_without_this_repository_is_explained(tmp_path, inputs):
    option, cluster = _dask(tmp_path, num_workers=1, repository="")
    with cluster:
        done = _program(inputs, tmp_path / "out/x", "dask", option)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "dask failed: Error during deserialization" in last
    assert "this repository in their PYTHONPATH" in last


@needs_beam
@pytest.mark.slow
def test_a_job_server_and_its_workers_make_the_same_records(tmp_path, inputs):
    output = tmp_path / "out/x"
    program.run(_options(inputs, output, num_workers=1))
    wanted = _content(tmp_path / "out")
    server, pool = _free_port(), _free_port()
    portability = "apache_beam.runners.portability.local_job_service_main"
    commands = (
        (
            "apache_beam.runners.worker.worker_pool_main",
            f"--service_port={pool}",
        ),
        (portability, f"--port={server}"),
    )
    with _processes(tmp_path, *commands, ready=server):
        done = _program(
            *(inputs, output, "PortableRunner"),
            *(f"--job_endpoint=localhost:{server}", "--direct_num_workers=2"),
            *("--environment_type=EXTERNAL",),
            f"--environment_config=localhost:{pool}",
        )
    assert done.returncode == 0, done.stderr
    assert _content(tmp_path / "out") == wanted
