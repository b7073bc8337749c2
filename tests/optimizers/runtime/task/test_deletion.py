"""Keys that a function deletes: in memory, in files, on the move, and when they come again."""

import any_job
import pyarrow as pa
import pytest
from any_job import Driver
from hypothesis import event, given, settings
from hypothesis import strategies as st

from grouping.routing_table import RoutingTable
from optimizers import Operator, Plan, Topology
from optimizers.errors import FoldError
from optimizers.folds import DELETE, Count, EachKey, Emit
from optimizers.runtime.state import cache
from optimizers.runtime.state.file import FileKind, read_state


@pytest.fixture(autouse=True)
def _nothing_is_known():
    cache.forget()


def visit(key, rows, state):
    """Count visits of a user until one says goodbye."""
    visits = (state or 0) + len(rows)
    return DELETE if "bye" in rows["word"].to_pylist() else visits


def farewell(key, rows, state):
    """The same, and say of each user that leaves how many visits there were."""
    visits = (state or 0) + len(rows)
    if "bye" not in rows["word"].to_pylist():
        return visits, None
    return DELETE, {"user": key[0], "visits": visits}


LEFT = pa.schema({"user": pa.string(), "visits": pa.int64()})


def job(fold, parallelism=1):
    return Topology.source("in").then(Operator("a", "user", parallelism, apply=fold, key_groups=16))


def words(**said):
    rows = [(user, word) for user, spoken in said.items() for word in spoken.split()]
    return {"in": pa.table({"user": [u for u, _ in rows], "word": [w for _, w in rows]})}


def files(driver):
    return driver.checkpoint.last_commit().state["a"][0]


def found(driver):
    """The results by key; of state that was never written there are no columns yet."""
    return driver.results("a") if len(driver.checkpoint.read("a")) else {}


def test_a_deleted_key_is_in_no_file_any_more_once_all_are_rewritten(tmp_path):
    driver = Driver(tmp_path, job(EachKey(visit, pa.int64())))
    driver.batch(words(ann="hi hi", bob="hi", cid="hi"))
    driver.batch(words(ann="hi bye", bob="hi"))

    base, delta = files(driver)
    rows = read_state(driver.checkpoint.location, delta).to_pylist()
    assert {"ann": True, "bob": False} == {row["key_0"]: row["gone"] for row in rows}
    assert {"bob": 2, "cid": 1} == found(driver)
    driver.checkpoint.compact()
    (base,) = files(driver)
    assert (FileKind.BASE, 2) == (base.kind, base.rows)
    assert {"bob": 2, "cid": 1} == found(driver)


def test_a_deleted_key_that_comes_again_is_new(tmp_path):
    driver = Driver(tmp_path, job(EachKey(visit, pa.int64())))
    driver.batch(words(ann="hi hi hi"))
    driver.batch(words(ann="bye"))
    assert {} == found(driver)
    driver.batch(words(ann="hi"))
    assert {"ann": 1} == found(driver)


def test_a_key_that_comes_and_goes_in_one_batch_leaves_no_trace(tmp_path):
    driver = Driver(tmp_path, job(EachKey(visit, pa.int64())))
    driver.batch(words(ann="hi bye"))
    assert () == files(driver)

    driver.batch(words(bob="hi"))
    driver.batch(words(ann="bye", bob="hi"))

    assert ["bob"] == read_state(driver.checkpoint.location, files(driver)[-1])["key_0"].to_pylist()
    assert {"bob": 2} == found(driver)


def test_a_null_is_a_state_and_no_deletion(tmp_path):
    driver = Driver(tmp_path, job(EachKey(lambda key, rows, state: None, pa.int64())))
    driver.batch(words(ann="hi"))

    assert {"ann": None} == found(driver)


def test_all_keys_may_be_deleted_and_the_last_file_is_empty(tmp_path):
    driver = Driver(tmp_path, job(EachKey(visit, pa.int64())))
    driver.batch(words(ann="hi", bob="hi"))
    for _ in range(20):
        driver.batch(words(ann="bye", bob="bye"))
        driver.batch(words(ann="hi"))
    driver.batch(words(ann="bye"))
    driver.checkpoint.compact()

    assert 0 == sum(file.rows for file in files(driver))
    assert 0 == len(driver.checkpoint.read("a"))


@pytest.mark.parametrize(
    ("fold", "sent"),
    [
        (EachKey(visit, pa.int64()), [{"user": "bob", "state": 1}]),
        (EachKey(visit, pa.int64(), emit=Emit.NOTHING), []),
        (EachKey(farewell, pa.int64(), LEFT), [{"user": "ann", "visits": 3}]),
        (
            EachKey(visit, pa.int64(), emit=Emit.TUPLES),
            [{"user": "ann", "word": "bye"}, {"user": "bob", "word": "hi"}],
        ),
    ],
)
def test_of_a_deleted_key_only_rows_of_the_functions_own_are_sent_on(tmp_path, fold, sent):
    driver = Driver(tmp_path, job(fold))
    driver.batch(words(ann="hi hi"))
    driver.batch(words(ann="bye", bob="hi"))

    expected = {"a": any_job.counted(sent)} if sent else {}
    assert expected == any_job.outputs_of(driver.checkpoint)


class Bounded(Count):
    """Counts to nine, and begins again."""

    def step(self, tuples, keys, before, key_rows):
        state = self.absorb(tuples, keys, before)
        gone = state["count"].to_numpy() > 9
        return self.sent(state, tuples, key_rows, gone)


def test_any_fold_may_delete_keys_by_saying_which(tmp_path):
    driver = Driver(tmp_path, job(Bounded()))
    for _ in range(4):
        driver.batch(words(ann="hi hi hi", bob="hi"))

    assert {"bob": 4} == found(driver)


class Wrong(Count):
    def step(self, tuples, keys, before, key_rows):
        return super().step(tuples, keys, before, key_rows)._replace(gone=[1, 0, 0])


def test_a_fold_that_says_of_others_that_they_are_gone_is_refused(tmp_path):
    driver = Driver(tmp_path, job(Wrong()))

    with pytest.raises(FoldError, match=r"by int64 of shape \(3,\) which of 2 keys are gone; give"):
        driver.batch(words(ann="hi", bob="hi"))


USERS = [f"u{number}" for number in range(8)]
SAID = st.dictionaries(st.sampled_from(USERS), st.sampled_from(["hi", "hi hi", "bye", "hi bye"]))
PLANS = st.builds(
    lambda count, owners: Plan(
        parallelism={"a": count},
        routing={"a": RoutingTable(USERS[: len(owners)], [o % count for o in owners], count)},
    ),
    st.integers(1, 4),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(SAID, PLANS | st.just(Plan())), min_size=1, max_size=20), st.data())
def test_deletions_hold_wherever_keys_are_and_whatever_is_forgotten(steps, data):
    """Keys move, drivers begin again, files are put together: what is deleted stays deleted."""
    expected, told = {}, []
    with any_job.temporary() as folder:
        topology = job(EachKey(farewell, pa.int64(), LEFT), 2)
        driver = Driver(folder, topology, [plan for _, plan in steps])
        for number, (said, _) in enumerate(steps):
            happens = data.draw(
                st.sampled_from(["nothing", "nothing", "forget", "restart", "compact"])
            )
            if happens != "nothing":
                cache.forget()
            if happens == "compact" and number:
                driver.checkpoint.compact()
            if happens in {"restart", "compact"}:
                driver = Driver(folder, topology, [plan for _, plan in steps[number:]])
            driver.batch(words(**said))
            left = []
            for user, spoken in said.items():
                visits = expected.pop(user, 0) + len(spoken.split())
                if "bye" in spoken:
                    left.append({"user": user, "visits": visits})
                else:
                    expected[user] = visits
            assert any_job.outputs_of(driver.checkpoint) == (
                {"a": any_job.counted(left)} if left else {}
            )
            told += left
            assert expected == found(driver)
    event(f"{min(len(told), 5)} or more deleted")


def grumpy(key, rows, state):
    """Refuse to hear of some users."""
    if "no" in rows["word"].to_pylist():
        raise ValueError("not them")
    return visit(key, rows, state)


def test_beside_keys_that_fail_others_are_deleted(tmp_path):
    operator = Operator("a", "user", apply=EachKey(grumpy, pa.int64()), on_error="skip")
    driver = Driver(tmp_path, Topology.source("in").then(operator))
    driver.batch(words(ann="hi", bob="hi hi", cid="hi", dan="hi"))
    driver.batch(words(ann="no", bob="bye", cid="hi", dan="no bye", eve="no", fay="hi bye"))

    assert {"ann": 1, "cid": 2, "dan": 1} == found(driver)
    sent = [{"user": "cid", "state": 2}]
    assert {"a": any_job.counted(sent)} == any_job.outputs_of(driver.checkpoint)
