"""A real Spark cluster on one machine: a master and workers, each on an address of its own.

The addresses 127.0.0.2, 127.0.0.3 and so on all lead back to this machine, and no rights are needed
to use them. To Spark they are different hosts, so it tells local from remote bytes, and prefers
hosts, as on a real cluster. For hosts with a network between them see `network`.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from optimizers.spark.session import QUICK_START

_PATIENCE = 90.0


@dataclass(frozen=True)
class Host:
    """Where a master or a worker runs.

    Attributes:
        address: by which it is known.
        entered: the command that runs another one there; nothing on this machine itself.
        port: of a master that runs there; by default one that is free on this machine.
    """

    address: str
    entered: tuple[str, ...] = ()
    port: int | None = None


@contextmanager
def standalone(
    workers: int = 3,
    *,
    folder: Path,
    cores: int = 1,
    memory: str = "1g",
    master: Host | None = None,
    hosts: Sequence[Host] = (),
) -> Iterator[str]:
    """Start a master and workers, and yield the master's URL.

    Args:
        workers: how many.
        folder: for logs and for what workers write.
        cores: of each worker.
        memory: of each worker.
        master: where the master runs; by default 127.0.0.1.
        hosts: where the workers run; by default 127.0.0.2 and so on.
    """
    master = master or Host("127.0.0.1")
    hosts = hosts or [Host(f"127.0.0.{number + 2}") for number in range(workers)]
    port = str(master.port or _free_port())
    url = f"spark://{master.address}:{port}"
    processes = []
    try:
        command = ("master.Master", "--host", master.address, "--port", port, "--webui-port", "0")
        processes.append(_started(command, master, folder))
        _await(master.address, int(port))
        processes += [_worker(url, host, folder, cores, memory) for host in hosts[:workers]]
        yield url
    finally:
        _end(processes)


@contextmanager
def another_worker(
    url: str, host: Host, *, folder: Path, cores: int = 1, memory: str = "1g"
) -> Iterator[None]:
    """Have one worker more; at the end it is killed, and its executors end with it.

    Args:
        url: of the master.
        host: where it runs.
        folder: for its log and for what it writes.
        cores: how many it has.
        memory: how much it has.
    """
    process = _worker(url, host, folder, cores, memory)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def session_on(url: str, workers: int, **settings: str) -> Iterator[SparkSession]:
    """Yield a session on a cluster, once all of its workers are there.

    Args:
        url: of the master.
        workers: how many executors to wait for.
        settings: more settings of Spark, with underscores for dots.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(url).appName("penstock")
    for name, value in {**_SETTINGS, **settings}.items():
        builder = builder.config(name.replace("_", "."), value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        deadline = time.monotonic() + _PATIENCE
        store = session.sparkContext._jsc.sc().statusStore()  # noqa: SLF001
        while store.executorList(True).size() < workers + 1:  # noqa: FBT003  # and the driver
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {store.executorList(True).size() - 1} executors came")  # noqa: FBT003
            time.sleep(0.2)
        yield session
    finally:
        session.stop()


_SETTINGS = {
    "spark_ui_enabled": "false",
    "spark_ui_showConsoleProgress": "false",
    "spark_sql_adaptive_enabled": "false",
    "spark_driver_host": "127.0.0.1",
    "spark_driver_bindAddress": "127.0.0.1",
    "spark_python_unix_domain_socket_enabled": "true",
    "spark_executor_memory": "768m",
    "spark_locality_wait": "10s",  # a machine as busy as this one is no reason to go elsewhere
}


def _worker(
    url: str, host: Host, folder: Path, cores: int, memory: str
) -> "subprocess.Popen[bytes]":
    work = folder / host.address
    work.mkdir(parents=True, exist_ok=True)
    settings = ("--cores", str(cores), "--memory", memory, "--work-dir", str(work))
    command = ("worker.Worker", "--host", host.address, "--webui-port", "0", *settings, url)
    return _started(command, host, folder)


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(command: Sequence[str], host: Host, folder: Path) -> "subprocess.Popen[bytes]":
    home = Path(_find_spark_home())
    name, *arguments = command
    environment = {**os.environ, "SPARK_LOCAL_IP": host.address, "SPARK_DAEMON_MEMORY": "256m"}
    environment |= {"SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": QUICK_START}
    folder.mkdir(parents=True, exist_ok=True)
    program = str(home / "bin" / "spark-class")
    with (folder / f"{name}-{host.address}.log").open("wb") as log:
        return subprocess.Popen(
            [*host.entered, program, f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _await(address: str, port: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            with socket.create_connection((address, port), timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
