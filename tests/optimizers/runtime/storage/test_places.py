"""Places: one folder, as people write it, as pyarrow finds it, and as Spark calls it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import CheckpointError
from optimizers.runtime.storage.azure import client_of
from optimizers.runtime.storage.location import Location
from optimizers.runtime.storage.opening import files_of
from optimizers.runtime.storage.places import KINDS, Place

AZURE = "jobs@ours.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("root", "uri", "folder", "spark"),
    [
        ("s3://b/a", "s3://b/a", "b/a", "s3a://b/a"),
        ("s3a://b/a/", "s3://b/a", "b/a", "s3a://b/a"),
        ("s3n://b", "s3://b", "b", "s3a://b"),
        (
            "S3A://b//a/c?region=eu&scheme=http",
            "s3://b/a/c?region=eu&scheme=http",
            "b/a/c",
            "s3a://b/a/c",
        ),
        (
            "s3://key:se%2Fcret@b/a",
            "s3://key:se%2Fcret@b/a",
            "b/a",
            "s3a://b/a",
        ),
        (
            "s3://b/a b/100%/ü=c+d",
            "s3://b/a%20b/100%25/%C3%BC%3Dc%2Bd",
            "b/a b/100%/ü=c+d",
            "s3a://b/a b/100%/ü=c+d",
        ),
        (
            "s3://b/a%20b%3Fc",
            "s3://b/a%20b%3Fc",
            "b/a b?c",
            "s3a://b/a b?c",
        ),
        ("gs://b/a", "gs://b/a", "b/a", "gs://b/a"),
        ("gcs://b/a", "gs://b/a", "b/a", "gs://b/a"),
        ("gs://anonymous@b/a", "gs://anonymous@b/a", "b/a", "gs://b/a"),
        (f"abfss://{AZURE}/a", f"abfss://{AZURE}/a", "jobs/a", f"abfss://{AZURE}/a"),
        (
            "abfs://jobs:k%3D@ours.dfs.core.windows.net/a?enable_tls=false",
            "abfs://jobs:k%3D@ours.dfs.core.windows.net/a?enable_tls=false",
            "jobs/a",
            f"abfs://{AZURE}/a",
        ),
        (
            "abfss://jobs@ours.dfs.core.chinacloudapi.cn/a",
            (
                f"abfss://{AZURE}/a?blob_storage_authority=.blob.core.chinacloudapi.cn"
                "&dfs_storage_authority=.dfs.core.chinacloudapi.cn"
            ),
            "jobs/a",
            "abfss://jobs@ours.dfs.core.chinacloudapi.cn/a",
        ),
        (
            "abfss://team@onelake.dfs.fabric.microsoft.com/our.Lakehouse/Files/a",
            (
                "abfss://team@onelake.dfs.core.windows.net/our.Lakehouse/Files/a"
                "?blob_storage_authority=.blob.fabric.microsoft.com"
                "&dfs_storage_authority=.dfs.fabric.microsoft.com"
            ),
            "team/our.Lakehouse/Files/a",
            "abfss://team@onelake.dfs.fabric.microsoft.com/our.Lakehouse/Files/a",
        ),
        (
            "abfss://jobs@ours.z12.dfs.storage.azure.net/a",
            (
                f"abfss://{AZURE}/a?blob_storage_authority=.z12.blob.storage.azure.net"
                "&dfs_storage_authority=.z12.dfs.storage.azure.net"
            ),
            "jobs/a",
            "abfss://jobs@ours.z12.dfs.storage.azure.net/a",
        ),
        ("hdfs://name:8020/a", "hdfs://name:8020/a", "/a", "hdfs://name:8020/a"),
        ("hdfs:///a?user=me", "hdfs:///a?user=me", "/a", "hdfs:/a"),
        ("hdfs:/a", "hdfs:///a", "/a", "hdfs:/a"),
        ("viewfs://cluster/a", "viewfs://cluster/a", "/a", "viewfs://cluster/a"),
    ],
)
def test_a_uri_names_one_place_for_us_and_for_spark(root, uri, folder, spark):
    place = Place.read(root)

    assert (uri, folder, spark) == (place.uri, place.folder, place.spark)


@pytest.mark.parametrize(
    ("root", "folder", "spark"),
    [
        ("/a b/[c]", "/a b/[c]", "file:/a b/[c]"),
        ("file:/a%20b", "/a b", "file:/a b"),
        ("file:///a", "/a", "file:/a"),
        ("dbfs:/jobs/a", "/dbfs/jobs/a", "dbfs:/jobs/a"),
        ("dbfs:///jobs/a", "/dbfs/jobs/a", "dbfs:/jobs/a"),
        ("dbfs:/Volumes/main/jobs/a", "/Volumes/main/jobs/a", "dbfs:/Volumes/main/jobs/a"),
    ],
)
def test_what_is_mounted_is_a_folder_to_us_and_a_uri_to_spark(root, folder, spark):
    place = Place.read(root)

    assert (folder, spark) == (place.folder, place.spark)


@pytest.mark.parametrize("key", ["", ":a%2Bkey%3D%3D"])
@pytest.mark.parametrize("cloud", ["core.windows.net", "core.chinacloudapi.cn", "fabric.test.com"])
def test_an_account_of_any_cloud_is_asked_for_there(cloud, key):
    place = Place.read(f"abfss://jobs{key}@ours.dfs.{cloud}/a")

    (made,) = files_of(place).__reduce__()[1]
    assert "ours" == made["account_name"]
    assert f".blob.{cloud}" == made["blob_storage_authority"]
    assert f".dfs.{cloud}" == made["dfs_storage_authority"]
    assert ("a+key==" if key else "") == made["account_key"]
    assert f"https://ours.blob.{cloud}/" == client_of(place).url


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("C:/jobs", "no storage 'c:' is known"),
        ("C:\\jobs", "no storage 'c:' is known"),
        ("wasb://c@a.blob.core.windows.net/x", "no storage 'wasb:' is known; known are file, dbfs"),
        ("jobs:a", "begin with a slash or with './'"),
        ("mock:///a", "no storage 'mock:'"),
        ("s3:/bucket/a", "needs a bucket, as in s3://bucket/folder"),
        ("s3:///a", "needs a bucket"),
        ("gs:a", "needs a bucket, as in gs://bucket/folder"),
        ("abfss://ours.dfs.core.windows.net/a", "needs container and account"),
        ("abfs://key:x@127.0.0.1:10000/c/a", "not as Spark has it"),
        ("abfss://c@a.blob.core.windows.net/a", "not as Spark has it"),
        ("abfss://c@dfs.core.windows.net/a", "not as Spark has it"),
        ("hdfs:a", "does not say which folder; write hdfs:///folder"),
        ("hdfs://name", "does not say which folder"),
        ("file:a", "does not say which folder"),
        ("file://host/a", "names the host 'host'"),
        ("dbfs://localhost/a", "names the host 'localhost'"),
        ("s3://b/a/../c", "'.' and '..' name no folder in a URI"),
    ],
)
def test_what_names_no_place_is_refused_with_a_remedy(root, words):
    with pytest.raises(CheckpointError) as refused:
        Location(root)

    assert words in str(refused.value)


def test_no_error_tells_a_password():
    for root in ("abfs://key:hush@127.0.0.1/c", "s3://me:hush@b/../c?secret_key=hush"):
        with pytest.raises(CheckpointError) as refused:
            Place.read(root)
        assert "hush" not in str(refused.value)
    assert "s3://b/c" == str(Place.read("s3://me:hush@b/c?secret_key=hush"))


@given(scheme=st.sampled_from(sorted(KINDS)), rest=st.text(max_size=20))
def test_no_uri_is_ever_a_folder_where_the_process_works(scheme, rest):
    try:
        place = Place.read(f"{scheme}:{rest}")
    except CheckpointError:
        return
    assert not place.folder.startswith(str(Path.cwd()))
    assert "?" not in place.spark or "%3F" in rest or place.scheme in {"file", "dbfs"}


WORDS = st.text(st.characters(exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1)


@given(
    root=st.sampled_from(
        ["s3a://b", "s3://k:s%2F@b/x?region=eu", "gs://b/x", f"abfss://{AZURE}", "hdfs:///", "/x"]
    ),
    names=st.lists(WORDS.filter(lambda word: word not in {".", ".."}), min_size=1, max_size=3),
)
def test_a_folder_within_a_place_is_found_again_by_its_root(root, names):
    outer = Place.read(root)
    inner = Place(
        outer.kind,
        outer.scheme,
        outer.host,
        "/".join([outer.path.rstrip("/"), *names]),
        outer.user,
        outer.secret,
        outer.options,
    )

    assert inner == Place.read(inner.root)
    assert inner.folder == "/".join([outer.folder.rstrip("/"), *names])
    assert inner.spark == "/".join([outer.spark.rstrip("/"), *names])


def test_a_folder_of_databricks_needs_its_mount(monkeypatch):
    # As it is everywhere but there.
    monkeypatch.setattr(Path, "is_dir", lambda self: False)

    with pytest.raises(CheckpointError, match="dbfs:/jobs is reached by Python as /dbfs/jobs"):
        Location("dbfs:/jobs")


def test_a_pair_of_names_may_be_given():
    here = Location("/mnt/jobs", spark="abfss://c@a.dfs.core.windows.net/jobs/")

    assert "abfss://c@a.dfs.core.windows.net/jobs/output/x" == here.spark_path_of("output/x")
    assert "/mnt/jobs/output/x" == here.path_of("output/x")
    inner = here.within("a b")
    assert ("/mnt/jobs/a b", f"{here.spark}/a b") == (inner.root, inner.spark)


@pytest.mark.parametrize(
    "spark", ["/mnt/jobs", "C:/x", "abfss", "s3a:b", "s3a://b/x?region=eu", ""]
)
def test_a_name_for_spark_is_a_uri(spark):
    with pytest.raises(CheckpointError, match="is not a folder by Spark's name"):
        Location("/mnt/jobs", spark=spark)


def test_a_path_object_is_a_folder_whatever_colons_it_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    here = Location(Path("s3:a"))

    assert str(tmp_path / "s3:a") == here.root
