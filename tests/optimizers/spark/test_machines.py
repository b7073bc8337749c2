"""Executors come and go: nodes follow the hosts, and instances are held where those are."""

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

from optimizers import Cluster, Deployment, Fixed, Node, Optimizer, Plan, PlanError, Topology
from optimizers.deployment import default_groups
from optimizers.errors import InvalidValueError
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.spark import SparkEngine, SparkExecutors, machines
from optimizers.spark import survey as survey_module
from optimizers.spark.executors import Host, HostReader, rack_of
from optimizers.spark.machine_facts import MachineFacts, facts_here, memory_of_each
from optimizers.spark.machines import Machines
from optimizers.spark.survey import Survey, _answer

JOB = (
    Topology.source("s")
    .then("a", key="k", parallelism=3, apply=Count(emit=Emit.TUPLES))
    .then("b", key="l", parallelism=2)
)


class Executors:
    """The hosts that executors run on, each executor with one core."""

    def __init__(self, **hosts):
        self.hosts = hosts

    def __call__(self):
        hosts = sorted(self.hosts.items())
        return {host: Host(tuple(names), len(names)) for host, names in hosts}


class Pins:
    """Stands for what holds instances: keeps which nodes it was asked for."""

    def __init__(self, session, hosts):
        self.hosts, self.kept = hosts, set()

    def held(self, parcels, nodes):
        self.kept.add(tuple(nodes))
        return parcels

    def forget(self, used):
        self.kept &= {tuple(nodes) for nodes in used}


class Surveyed:
    """Stands for what hosts tell of themselves."""

    def __init__(self):
        self.here, self.told = None, {}

    def of(self, hosts):
        return {host: self.told[host] for host in hosts if host in self.told}


@pytest.fixture
def survey(monkeypatch):
    found = Surveyed()
    monkeypatch.setattr(machines, "Survey", lambda session: found)
    monkeypatch.setattr(machines, "rack_of", lambda session, host: {"far": "dc2:r7"}.get(host))
    return found


@pytest.fixture
def executors(monkeypatch, survey):
    found = Executors()
    monkeypatch.setattr(machines, "HostReader", lambda session: found)
    return found


def looking(given=None, task_cpus="1", hosts=None, **settings):
    """Machines of a session that is none."""
    told = {"spark.task.cpus": task_cpus, **settings}
    conf = SimpleNamespace(get=told.get)
    context = SimpleNamespace(getConf=lambda: conf, defaultParallelism=6, master="spark://x:7077")
    return Machines(SimpleNamespace(sparkContext=context), JOB, given, hosts)


def thought_of(**sizes):
    return Cluster(tuple(Node(f"node-{place}", **sizes) for place in range(3)))


def facts(machine, memory, bandwidth=None):
    return MachineFacts({machine: memory}, bandwidth)


@pytest.fixture
def pins(monkeypatch):
    made = []

    def make(session, hosts):
        made.append(Pins(session, hosts))
        return made[-1]

    monkeypatch.setattr(machines, "Pins", make)
    return made


def names(cluster):
    return [node.name for node in cluster.nodes]


class TestClusters:
    def test_are_the_hosts_each_as_capable_as_its_executors_have_cores(self, executors, pins):
        executors.hosts = {"x": "12", "y": "3"}

        assert Cluster((Node("x", 2.0, cores=2), Node("y", 1.0, cores=1))) == looking().cluster
        nodes = looking(task_cpus="2").cluster.nodes  # of which tasks take two
        assert [(2.0, 1), (1.0, 1)] == [(node.capacity, node.cores) for node in nodes]

    def test_have_what_hosts_tell_of_themselves(self, executors, survey, pins):
        executors.hosts = {"far": "12", "x": "3", "y": "4"}
        survey.told = {"far": facts("m1", 4096.0, 1e9), "x": facts("m2", 300.0)}

        wanted = (
            Node("far", 2.0, "dc2:r7", cores=2, memory=4096, bandwidth=1e9),
            Node("x", 1.0, cores=1, memory=300),
            Node("y", 1.0, cores=1),
        )
        assert Cluster(wanted) == looking().cluster
        # Of Python that is held to less, that counts for each executor.
        held = {"spark.executor.memory": "1b", "spark.executor.pyspark.memory": "511b"}
        memory = [node.memory for node in looking(**held).cluster.nodes]
        assert [1024, 300, 512] == memory

    def test_share_the_machine_that_several_hosts_are(self, executors, survey, pins):
        executors.hosts = {"x": "1", "y": "2"}
        survey.told = {name: facts("m", 900.0, 1e9) for name in "xyz"}
        found = looking()
        assert [(450, None)] * 2 == [(node.memory, node.bandwidth) for node in found.cluster.nodes]

        executors.hosts = {"x": "1", "y": "2", "z": "3"}
        assert [300] * 3 == [node.memory for node in found.look().nodes]

    def test_that_are_thought_of_share_the_machine_that_is_there(self, executors, survey, pins):
        survey.here = facts("m", 1200.0, 1e9)
        assert thought_of(cores=2, memory=400) == looking().cluster  # six at a time, as Spark says

        survey.here = None
        executors.hosts = {"x": "12"}
        survey.told = {"x": facts("m", 1200.0)}
        each = thought_of(cores=2 / 3, memory=400)
        assert each == looking().cluster
        executors.hosts = {}
        found = looking()
        assert Cluster.uniform(3) == found.cluster  # what Spark says is of no machine
        executors.hosts = {"x": "12"}  # which has come late
        assert each == found.look()
        executors.hosts = {"x": "12345"}
        assert thought_of(cores=5 / 3, memory=400) == found.look()
        assert each == looking(task_cpus="2").cluster  # of which two run at a time

    def test_that_are_thought_of_share_what_is_said_of_their_host(self, executors, survey, pins):
        executors.hosts = {"x": "12"}
        survey.told = {"x": facts("m", 1200.0)}

        found = looking(hosts={"x": {"cores": 6, "memory": 600}})

        assert thought_of(cores=2, memory=200) == found.cluster

    def test_have_as_many_slots_as_executors_have_cores(self, executors, pins):
        executors.hosts = {"x": "12", "y": "3"}
        found = looking()
        assert 3 == found.slots

        executors.hosts = {"x": "12", "y": "345"}
        found.look()

        assert 5 == found.slots
        executors.hosts = {}
        assert 6 == looking().slots  # as Spark says where it runs all tasks itself
        assert 3 == looking(task_cpus="2").slots

    @pytest.mark.parametrize(("hosts", "cores"), [({}, None), ({"x": "12"}, 2 / 3)])
    def test_are_only_thought_of_where_there_is_no_choice_of_hosts(
        self, executors, pins, hosts, cores
    ):
        executors.hosts = hosts
        found = looking()

        assert thought_of(cores=cores) == found.cluster == found.look()
        assert [] == pins

    def test_follow_the_hosts(self, executors, pins, caplog):
        executors.hosts = {"x": "1", "y": "2"}
        found = looking()
        before = found.cluster
        assert before is found.look()

        executors.hosts = {"y": "2", "z": "34"}

        assert {"y": 1.0, "z": 2.0} == {node.name: node.capacity for node in found.look().nodes}
        assert found.cluster.deal(2) == ("z", "y")
        assert "['x'] left, ['z'] came" in caplog.text
        executors.hosts = {"y": "2"}  # the cluster is real by now, and stays so
        assert ["y"] == names(found.look())
        executors.hosts = {}
        assert ["y"] == names(found.look())

    def test_begin_with_one_host_and_become_several(self, executors, pins):
        executors.hosts = {"x": "1"}
        found = looking()

        executors.hosts = {"x": "1", "y": "2"}

        assert ["x", "y"] == names(found.look())
        assert 1 == len(pins)
        executors.hosts = {"y": "2"}
        assert ["y"] == names(found.look())

    def test_that_are_given_stay_as_they_are(self, executors, pins):
        executors.hosts = {"x": "1", "y": "2"}
        given = Cluster((Node("x"), Node("y"), Node("w")))
        found = looking(given)

        executors.hosts = {"y": "2", "z": "3"}

        assert names(given) == names(found.cluster) == names(found.look())
        assert ["x", "y"] == sorted(pins[0].hosts)
        assert ["y", "z"] == sorted(pins[1].hosts)

    def test_that_are_given_are_told_the_rest(self, executors, survey, pins):
        executors.hosts = {"far": "12", "x": "3"}
        survey.told = {"far": facts("m1", 4096.0, 1e9), "x": facts("m2", 512.0, 2e9)}
        given = Cluster((Node("w"), Node("far"), Node("x", 3.0, "left", 8, 64, 5.0)), ("w",))
        found = looking(given)

        # Neither its capacity nor its rack: it cannot be seen whether they were said.
        told = Node("far", cores=2, memory=4096, bandwidth=1e9)
        assert replace(given, nodes=(Node("w"), told, given.node("x"))) == found.cluster

        executors.hosts = {"w": "7"}  # alone it is no choice, but it is known by its name
        survey.told = {"w": facts("m3", 8.0)}
        assert Node("w", cores=1, memory=8) == found.look().node("w")
        assert Node("far") == found.cluster.node("far")

    def test_that_are_given_and_name_no_host_hold_nothing(self, executors, pins, caplog):
        executors.hosts = {"x": "1", "y": "2"}

        looking(Cluster.uniform(3))

        assert [] == pins
        assert "no node of ['node-0', 'node-1', 'node-2'] is called as one of the hosts" in (
            caplog.text
        )


class TestPins:
    def test_of_earlier_layouts_are_given_back(self, executors, pins):
        executors.hosts = {"x": "1", "y": "2"}
        found = looking()
        layouts = [
            Layout.of(JOB, found.cluster, Plan(placement={"b": Deployment(homes, GROUPS)}))
            for homes in (("x", "y"), ("y", "x"))
        ]
        for layout in layouts:
            for stage in (1, 2):
                found.held(None, layout, stage)

        found.forget_others(layouts[1])

        assert {("x", "y", "x"), ("y", "x")} == pins[0].kept
        found.rest()
        assert set() == pins[0].kept

    def test_are_made_anew_for_other_executors_on_the_same_hosts(self, executors, pins):
        executors.hosts = {"x": "1", "y": "2"}
        found = looking()
        found.held(None, Layout.of(JOB, found.cluster, Plan()), 1)

        executors.hosts = {"x": "1", "y": "3"}
        before = found.cluster

        assert before == found.look()
        assert set() == pins[0].kept
        assert {"x": ("1",), "y": ("3",)} == pins[1].hosts


GROUPS = default_groups(JOB.operator("b"))


class Placing(Optimizer):
    """Places all of operator b on the first node it is shown, once."""

    def __init__(self):
        self.seen = []

    def plan(self, topology, cluster, statistics, current):
        self.seen.append(names(cluster))
        if statistics:
            return Plan()
        return Plan(placement={"b": Deployment((names(cluster)[0],) * 2, GROUPS)})


@pytest.mark.spark
def test_a_run_follows_its_executors(spark, tmp_path, executors):
    executors.hosts = {"x": ["8"], "y": ["9"]}  # none that Spark knows
    engine = SparkEngine(checkpoint=str(tmp_path / "job"), spark=spark, every=1)
    keys = list(range(30))
    rows = spark.createDataFrame(pa.table({"k": keys, "l": keys}))
    optimizer = Placing()
    cached = spark.sparkContext._jsc.getPersistentRDDs  # noqa: SLF001
    before = cached().size()

    run = engine.run(JOB, [], optimizer)
    run.execute(rows)
    assert ("x", "x") == run.layout.homes["b"].nodes
    assert 2 == cached().size() - before  # an anchor for each stage
    executors.hosts = {"y": ["9"], "z": ["10"]}
    run.execute(rows)  # looks before it begins
    # The plan in force has "a" on "y", too: the host that came takes over from the one that left.
    assert ("z", "z") == run.layout.homes["b"].nodes
    assert 2 == cached().size() - before  # those for the hosts before are given back
    run.execute(rows)

    assert [["x", "y"], ["x", "y"], ["y", "z"], ["y", "z"]] == optimizer.seen
    assert [False, False, True, False, False] == [said.fits for said in run.decisions]
    assert [3] * 30 == run.state("b").column("count").to_pylist()
    assert 2 == cached().size() - before
    run.rest()
    assert 0 == cached().size() - before


class Spark:
    """Stands for a session: executors, and what Spark keeps of them for its reports."""

    def __init__(self, **places):
        self.running, self.reported, self.is_local, self.reads = (
            dict(places),
            dict(places),
            False,
            0,
        )
        java = SimpleNamespace(isLocal=lambda: self.is_local, sc=lambda: self)
        self.sparkContext = SimpleNamespace(_jsc=java)

    def getExecutorIds(self):  # noqa: N802  # as Spark calls it
        return SimpleNamespace(mkString=lambda comma: comma.join(self.running))

    def statusStore(self):  # noqa: N802  # as Spark calls it
        self.reads += 1

        def executor(name, place, cores):
            return SimpleNamespace(
                id=lambda: name, hostPort=lambda: place, totalCores=lambda: cores
            )

        there = [executor("driver", "d:1", 0)]
        there += [executor(name, place, 2) for name, place in self.reported.items()]
        store = SimpleNamespace(size=lambda: len(there), apply=there.__getitem__)
        return SimpleNamespace(executorList=lambda active: store)


class TestReading:
    def test_tells_executors_apart_by_host(self):
        spark = Spark(e1="x:7", e0="x:5", e2="[::1]:9")

        expected = {"[::1]": Host(("e2",), 2), "x": Host(("e0", "e1"), 4)}
        assert expected == HostReader(spark)()

    def test_is_done_again_only_where_executors_are_others(self):
        spark = Spark(e0="x:5", e1="y:7")
        read = HostReader(spark)
        assert read() == read()
        assert 1 == spark.reads

        spark.running = spark.reported = {"e0": "x:5", "e2": "y:8"}

        assert {"x": Host(("e0",), 2), "y": Host(("e2",), 2)} == read() == read()
        assert 2 == spark.reads

    def test_leaves_out_what_runs_no_more_and_looks_again_for_what_is_not_reported_yet(self):
        spark = Spark(e0="x:5", e1="y:7")
        read = HostReader(spark)
        spark.running = {"e1": "y:7", "e2": "z:8"}

        assert {"y": Host(("e1",), 2)} == read()

        spark.reported = {**spark.reported, "e2": ""}  # whose address is not there yet
        assert {"y": Host(("e1",), 2)} == read()
        spark.reported = {**spark.reported, "e2": "z:8"}
        assert {"y": Host(("e1",), 2), "z": Host(("e2",), 2)} == read()

    def test_finds_none_where_the_driver_runs_all_tasks_and_where_all_have_left(self):
        spark = Spark(e0="x:5")
        read = HostReader(spark)
        spark.is_local = True
        assert {} == read()
        assert 0 == spark.reads
        spark.is_local, spark.running = False, {}
        assert {} == read()


class TestRacks:
    @pytest.mark.parametrize(
        ("expected", "told"),
        [
            (None, None),
            (None, "/default-rack"),
            ("r7", "/r7"),
            ("dc2:r7", "/dc2/r7"),
            ("a-b", "/a b"),
        ],
    )
    def test_are_those_that_spark_knows(self, expected, told):
        found = SimpleNamespace(isDefined=lambda: told is not None, get=lambda: told)
        scheduler = SimpleNamespace(getRackForHost=lambda host: {"x": found}[host])
        java = SimpleNamespace(sc=lambda: SimpleNamespace(taskScheduler=lambda: scheduler))
        session = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))

        assert expected == rack_of(session, "x")
        if expected is not None:
            assert expected == Node("x", rack=expected).rack

    def test_are_not_known_to_a_scheduler_of_others(self):
        def refuse():
            raise Py4JError("method getRackForHost([class java.lang.String]) does not exist")

        java = SimpleNamespace(sc=lambda: SimpleNamespace(taskScheduler=refuse))

        assert rack_of(SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java)), "x") is None


@pytest.mark.spark
class TestSurveys:
    def test_of_a_local_session_read_its_machine_and_ask_no_task(self, spark):
        before = jobs(spark)
        survey = Survey(spark)

        assert facts_here() == survey.here
        assert {} == survey.of({"x": Host(("8",), 1)})
        assert before == jobs(spark)
        assert rack_of(spark, "x") is None
        memory = memory_of_each({"here": survey.here})["here"] / 3
        assert [memory] * 3 == [node.memory for node in Machines(spark, JOB, None).cluster.nodes]

    def test_ask_each_host_once_and_again_only_where_none_answers(self, spark, monkeypatch):
        monkeypatch.setattr(survey_module, "is_local", lambda context: False)
        survey = Survey(spark)
        hosts = {"x": Host(("8",), 1), "y": Host(("9",), 1)}
        before = jobs(spark)

        assert {} == survey.of(hosts)  # these tasks do not know on which host they are
        assert 2 == jobs(spark) - before
        assert {} == survey.of(hosts)
        assert 2 == jobs(spark) - before

        monkeypatch.setattr(Survey, "_told", lambda self, asked: dict.fromkeys(asked, FOUND))
        more = {**hosts, "z": Host(("7",), 1)}
        assert {"z": FOUND} == survey.of(more)
        monkeypatch.setattr(Survey, "_told", lambda self, asked: dict.fromkeys(asked, None))
        assert {"z": FOUND} == survey.of(more)
        # A host that left and came may be another machine.
        assert {} == survey.of({})
        assert {"x": None, "z": None} == survey.of({"x": hosts["x"], "z": more["z"]})

    def test_that_fail_tell_nothing_and_say_so(self, spark, monkeypatch, caplog):
        monkeypatch.setattr(survey_module, "is_local", lambda context: False)
        monkeypatch.setattr(survey_module, "_ANSWER", "no schema")

        assert {} == Survey(spark).of({"x": Host(("8",), 1)})
        assert "hosts ['x'] were not asked what they have" in caplog.text


FOUND = MachineFacts({"m": 1.0}, 2.0)


def jobs(spark):
    return spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()  # noqa: SLF001


def test_a_task_says_on_which_host_it_is_and_what_that_has(monkeypatch):
    rows = [pa.record_batch({"task": pa.array([1], pa.int32())})]
    assert [] == list(_answer(iter(rows)))  # no executor above it

    monkeypatch.setattr(survey_module, "executor_host", lambda: "x")
    monkeypatch.setattr(survey_module, "facts_here", lambda: FOUND)
    (told,) = (batch.to_pylist() for batch in _answer(iter(rows)))
    assert [{"host": "x", "facts": '{"memory": {"m": 1.0}, "bandwidth": 2.0}'}] == told
    assert [] == list(_answer(iter([])))  # of a partition that is empty


@pytest.mark.spark
def test_executors_of_a_session_that_has_none_are_refused_and_the_job_goes_on(spark, tmp_path):
    engine = SparkEngine(
        checkpoint=str(tmp_path / "job"), spark=spark, every=1, provisioner=SparkExecutors()
    )
    rows = spark.createDataFrame(pa.table({"k": [1, 2], "l": [3, 4]}))

    run = engine.run(JOB, [rows, rows], Fixed(Plan(nodes=5)))

    (told,) = [said for said in run.decisions if said.provisions]
    assert "SparkExecutors.acquire raised PlanError: Spark runs as 'local[2]'" in told.refused
    assert [2, 2] == run.state("b").column("count").to_pylist()
    assert ["node-0", "node-1", "node-2"] == names(run.cluster)
    with pytest.raises(PlanError, match=r"local\[2\]"):
        SparkExecutors().release(("x",))


def test_what_acquires_nothing_and_what_would_not_be_seen_is_refused():
    with pytest.raises(InvalidValueError, match="provisioner=3 has no methods"):
        SparkEngine(checkpoint="x", provisioner=3)
    with pytest.raises(InvalidValueError, match="has no methods"):
        SparkEngine(checkpoint="x", provisioner=SparkExecutors)
    with pytest.raises(InvalidValueError, match="leave one of them out"):
        SparkEngine(checkpoint="x", provisioner=SparkExecutors(), cluster=Cluster.uniform(2))
