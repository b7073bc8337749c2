"""The fences of Google's and Azure's stores, against stubs that speak as those do."""

from multiprocessing.pool import ThreadPool

import pytest
from object_stores import ODD, Proxy, Stub, as_azure, as_google, on_azure, serving

from optimizers.runtime.storage import fence
from optimizers.runtime.storage.azure import AzureFence
from optimizers.runtime.storage.disk import NameTakenError
from optimizers.runtime.storage.gcs import GcsFence
from optimizers.runtime.storage.places import Place


def on_google(port):
    return f"gs://anonymous@jobs/job?scheme=http&endpoint_override=127.0.0.1:{port}"


@pytest.fixture(params=["google", "azure"])
def store(request, monkeypatch):
    """A fence before a stub, the proxy between them, and what the stub holds."""
    monkeypatch.setattr(fence, "_PAUSES", (0.0,) * 6)
    answer, uri, kind = {
        "google": (as_google, on_google, GcsFence),
        "azure": (as_azure, on_azure, AzureFence),
    }[request.param]
    stub = Stub(answer)
    with serving(stub.server), Proxy.before(stub.port) as proxy:
        yield kind(Place.read(uri(proxy.here))), proxy, stub.objects


@pytest.mark.parametrize("name", ["commits/1.json", *ODD])
def test_a_file_is_created_only_where_there_is_none(store, name):
    created, _, objects = store

    created.create(f"jobs/{name}", b"mine\r\n--\x00")

    with pytest.raises(NameTakenError):
        created.create(f"jobs/{name}", b"yours")
    assert [b"mine\r\n--\x00"] == [content for _, content in objects.values()]
    assert [name] == list(objects)


def test_of_many_that_create_a_file_at_once_one_does(store):
    created, _, objects = store

    def try_it(content):
        try:
            created.create("jobs/1", content)
        except NameTakenError:
            return None
        return content

    with ThreadPool(4) as pool:
        done = pool.map(try_it, [b"%d" % number for number in range(4)])

    assert [content for _, content in objects.values()] == [name for name in done if name]


@pytest.mark.parametrize("faults", [["unanswered"], ["failed"], ["unsent", "failed", "unanswered"]])
@pytest.mark.parametrize("asking", [[], ["unsent", "failed"]])
def test_a_create_whose_answer_is_lost_is_found_to_be_ours(store, faults, asking):
    created, proxy, objects = store
    writing, looking = list(faults), list(asking)

    def fault(method, path):
        left = writing if method in {"PUT", "POST"} else looking
        return left.pop(0) if left else None

    proxy.fault = fault

    created.create("jobs/1", b"mine")

    assert not writing
    assert not looking
    assert [b"mine"] == [content for _, content in objects.values()]
    with pytest.raises(NameTakenError):
        created.create("jobs/1", b"mine")


def test_what_is_forbidden_or_missing_is_not_asked_for_again(store):
    created, proxy, _ = store
    for status, kind in ((403, PermissionError), (404, FileNotFoundError), (400, OSError)):
        proxy.pass_on = lambda *asked, status=status: (status, [], b"")
        proxy.asked.clear()

        with pytest.raises(kind):
            created.create("jobs/1", b"mine")
        assert 1 == proxy.asked.total()


@pytest.mark.parametrize("status", [409, 429, 503])
def test_a_store_that_is_busy_is_asked_again(store, status):
    created, proxy, objects = store
    pass_on, busy = proxy.pass_on, [status, status]

    def late(*asked):
        return (busy.pop(), [], b"") if busy else pass_on(*asked)

    proxy.pass_on = late

    created.create("jobs/1", b"mine")

    assert [b"mine"] == [content for _, content in objects.values()]
    assert not busy


def test_a_store_that_never_answers_is_told_of(store):
    created, proxy, _ = store
    proxy.fault = lambda method, path: "unsent"

    with pytest.raises(OSError, match="did not say whether it was written, though it was asked 7"):
        created.create("jobs/1", b"mine")
