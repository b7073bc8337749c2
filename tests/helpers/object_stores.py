"""Object stores on this machine, for tests: moto's server, and a proxy that misbehaves."""

import http.client
import itertools
import json
import threading
from collections import Counter
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import boto3
import pytest
from moto.server import ThreadedMotoServer

from optimizers.errors import CheckpointError

NUMBERS = itertools.count()

ODD = ["a b", "a+b", "a%20b", "100%", "ü€😀", "k=v", "a&b?c", "q#r", "t~'!(*)", "[x]{1}"]
"""Names of files that a store has to quote."""


# The key of Azurite's account, which is the same everywhere and no secret.
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def odd_names_are_kept(here, odd=ODD):
    """Files of odd names are written in each way, found, listed and deleted."""
    for write in (here.write_new, here.write_once, here.write_atomically):
        names = [f"d/{write.__name__}/{name}" for name in odd]
        for name in names:
            write(name, name.encode())

        assert sorted(names) == sorted(here.list(f"d/{write.__name__}"))
        for name in names:
            assert here.exists(name)
            assert name.encode() == here.read_bytes(name)
            with pytest.raises(CheckpointError, match="already there"):
                here.write_new(name, b"")
            here.delete(name)
            here.delete(name)
            assert not here.exists(name)
    assert {} == here.list("")


class Store:
    """A server of S3 on this machine.

    Args:
        port: where it listens.
    """

    def __init__(self, port):
        self.port = port
        self.client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id="someone",
            aws_secret_access_key="hush-hush",  # noqa: S106
        )

    def bucket(self):
        """Make a bucket."""
        name = f"bucket-{next(NUMBERS)}"
        self.client.create_bucket(Bucket=name)
        return name

    def uri(self, bucket, folder="job", port=None, scheme="s3"):
        """The URI of a folder, by which pyarrow and the fence find this server."""
        return (
            f"{scheme}://someone:hush-hush@{bucket}/{folder}"
            f"?endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=us-east-1"
        )

    def keys(self, bucket):
        """The names of all objects."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]


@contextmanager
def s3_server():
    """A server of S3, as long as it is needed."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield Store(server.get_host_and_port()[1])
    finally:
        server.stop()


def on_azure(port, folder="a%20job"):
    """The URI of a folder in the container ``jobs`` of a server that speaks as Azure does."""
    asked = f"blob_storage_authority=127.0.0.1:{port}&dfs_storage_authority=127.0.0.1:{port}"
    key = quote(AZURE_KEY, safe="")
    host = "devstoreaccount1.dfs.core.windows.net"
    return f"abfs://jobs:{key}@{host}/{folder}?{asked}&enable_tls=false"


class Stub:
    """Keeps objects in memory, and speaks just as much as the fences of Google and Azure ask.

    Args:
        answer: answers a request by the objects, given method, path, headers and body; with status,
            headers and content.
    """

    def __init__(self, answer):
        self.objects = {}
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_PUT(self):
                status, headers, content = answer(
                    stub.objects, self.command, self.path, self.headers, _body(self)
                )
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


def as_google(objects, method, path, headers, body):
    """Answer as Google's JSON interface does."""
    url = urlsplit(path)
    if method == "GET":
        name = unquote(url.path.rpartition("/")[2])
        if name not in objects:
            return 404, {}, b"{}"
        return 200, {}, json.dumps({"name": name, "metadata": objects[name][0]}).encode()
    border = headers["Content-Type"].partition("boundary=")[2].encode()
    described, content = body.split(b"--" + border)[1:3]
    described = json.loads(described.partition(b"\r\n\r\n")[2])
    content = content.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
    assert "multipart" == dict(parse_qsl(url.query))["uploadType"]
    if described["name"] in objects and dict(parse_qsl(url.query))["ifGenerationMatch"] == "0":
        return 412, {}, b"{}"
    objects[described["name"]] = described["metadata"], content
    return 200, {}, b"{}"


def as_azure(objects, method, path, headers, body):
    """Answer as Azure's blob service does."""
    name = unquote(urlsplit(path).path.split("/", 3)[3])
    if method == "HEAD":
        if name not in objects:
            return 404, {"x-ms-error-code": "BlobNotFound"}, b""
        found = {f"x-ms-meta-{key}": value for key, value in objects[name][0].items()}
        return 200, {**found, "ETag": '"1"', "x-ms-blob-type": "BlockBlob"}, b""
    if name in objects and headers.get("If-None-Match") == "*":
        return 409, {"x-ms-error-code": "BlobAlreadyExists"}, b""
    prefix = "x-ms-meta-"
    told = {key[len(prefix) :].lower(): headers[key] for key in headers if prefix in key.lower()}
    objects[name] = told, body
    return 201, {"ETag": '"1"', "Last-Modified": "Thu, 19 Nov 2026 00:00:00 GMT"}, b""


@contextmanager
def serving(server):
    """A server, as long as it is needed."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _body(request):
    """What a request brings, in one piece or in several."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    pieces = []
    while length := int(request.rfile.readline(), 16):
        pieces.append(request.rfile.read(length))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(pieces)


class Proxy:
    """Passes requests on, one that writes after the other, but those that a fault befalls.

    A fault is asked for each request, by method and path. It may say ``"unsent"`` (the store never
    hears of it, and the connection breaks), ``"unanswered"`` (the store does it, and the connection
    breaks), or ``"failed"`` (the store does it, and says 500).
    """

    def __init__(self, port):
        self.port = port
        self.fault = lambda method, path: None
        self.asked = Counter()
        self._writing = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.here = self._server.server_address[1]

    def pass_on(self, method, path, body, headers):
        """Ask the store; return status, headers and body of its answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as store:
            store.request(method, path, body=body, headers=headers)
            answer = store.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def answer(self, request, method):
        """Answer a request."""
        body = _body(request)
        self.asked[method] += 1
        fault = self.fault(method, request.path)
        if fault != "unsent":
            with self._writing:
                asked = {
                    name: value
                    for name, value in request.headers.items()
                    if name.lower() not in {"connection", "expect", "transfer-encoding"}
                }
                status, headers, content = self.pass_on(method, request.path, body, asked)
        if fault in {"unsent", "unanswered"}:
            request.close_connection = True
            return
        if fault == "failed":
            status, headers, content = 500, [], b""
        request.send_response(status)
        for name, value in headers:
            if name.lower() not in {"connection", "transfer-encoding", "server", "date"}:
                request.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if method != "HEAD":
            request.wfile.write(content)

    def _handler(self):
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", lambda self, method=method: proxy.answer(self, method))
        return Handler

    @classmethod
    @contextmanager
    def before(cls, port):
        """A proxy before a server, as long as it is needed."""
        proxy = cls(port)
        with serving(proxy._server):
            yield proxy
