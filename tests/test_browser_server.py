"""The server that a page talks to: it answers its own token and its first page, and says when either is gone."""

import http.client
import socket

import pytest

from pytest_webgpu.gpu.server import Gone, Message, Server
from pytest_webgpu.gpu.wire import pack, unpack


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def ask(server, method, path, body=None, page="first"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, body, {"X-Page": page})
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer, read


def test_the_page_and_its_scripts_isolate_it(server):
    token = server.open().token
    for name, kind in (("", "text/html"), ("page.js", "text/javascript"), ("timing.js", "text/javascript")):
        answer, body = ask(server, "GET", f"/{token}/{name}")
        assert (answer.status, answer.headers["Content-Type"]) == (200, kind)
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        assert body
    assert server.url == f"http://127.0.0.1:{server.port}/{token}/"


@pytest.mark.parametrize("path", ["/", "/{half}/", "/{former}/", "/{token}", "/x/exchange", "/%00/"])
def test_a_stranger_is_told_nothing(server, path):
    former = server.open().token
    token = server.open().token
    path = path.format(token=token, half=token[:20], former=former)
    for method in ("GET", "POST"):
        answer, body = ask(server, method, path, b"x" * 100 if method == "POST" else None)
        assert (answer.status, body) == (403, b"")
    assert server.session.inbox.empty()


def test_other_files_and_other_pages_are_refused(server):
    session = server.open()
    session.send({"first": 1})
    assert ask(server, "GET", f"/{session.token}/../server.py")[0].status == 404
    assert ask(server, "POST", f"/{session.token}/exchange")[0].status == 200
    assert ask(server, "POST", f"/{session.token}/exchange", page="second")[0].status == 409
    assert ask(server, "GET", f"/{session.token}/alive?page=second")[0].status == 409


def test_the_page_of_a_former_visit_is_told_to_reload(server):
    former = server.open()
    former.send({"job": 1})
    ask(server, "POST", f"/{former.token}/exchange")
    session = server.open(again=True)
    _, body = ask(server, "POST", f"/{session.token}/exchange", b"".join(pack({"late": 1}, [])))
    assert unpack(body)[0] == {"reload": True}
    assert session.inbox.empty()
    session.send({"job": 2})
    assert unpack(ask(server, "POST", f"/{session.token}/exchange", page="reloaded")[1])[0] == {"job": 2}


def test_messages_go_both_ways(server):
    session = server.open()
    session.send({"commands": []}, [b"1234", memoryview(b"56")])
    _, body = ask(server, "POST", f"/{session.token}/exchange", b"".join(pack({"hello": {}}, [b"abc"])))
    data, blobs = unpack(body)
    assert (data, [bytes(b) for b in blobs]) == ({"commands": []}, [b"1234", b"56"])
    message = session.inbox.get(timeout=5)
    assert isinstance(message, Message)
    assert (message.data, [bytes(b) for b in message.blobs]) == ({"hello": {}}, [b"abc"])


def test_two_servers_do_not_meet(server):
    other = Server()
    other.open()
    assert ask(other, "GET", f"/{server.open().token}/")[0].status == 403
    other.close()


@pytest.mark.parametrize("body", [b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\2\0\0\0{}"])
def test_what_is_no_message_is_told(server, body):
    session = server.open()
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(server, "POST", f"/{session.token}/exchange", body)
    assert "no message" in session.inbox.get(timeout=5).reason


@pytest.mark.parametrize(
    ("length", "body"),
    [("-5", b""), ("many", b""), ("9" * 40, b""), ("6", b"\2\0\0\0[]"), ("5", b"\1\0\0\0" b"3"),
     ("22", b'\x12\0\0\0{"blob_sizes": 33}')],
)  # fmt: skip
def test_a_length_that_is_none_and_json_of_another_kind_are_told(server, length, body):
    session = server.open()
    head = f"POST /{session.token}/exchange HTTP/1.1\r\nX-Page: first\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as posting:
        posting.sendall(head.encode() + body)
        assert "the page sent" in session.inbox.get(timeout=5).reason


@pytest.mark.parametrize(
    ("request_", "status"),
    [(b"PUT /{token}/exchange HTTP/1.1\r\n\r\n", b"501"), (b"OPTIONS /{token}/exchange HTTP/1.1\r\n\r\n", b"501"),
     (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", b"414")],
)  # fmt: skip
def test_what_is_no_request_of_a_page_is_refused_without_a_word(server, request_, status):
    token = server.open().token
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as stranger:
        stranger.sendall(request_.replace(b"{token}", token.encode()))
        answer = b"".join(iter(lambda: stranger.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split()[1], body) == (status, b"")
    assert server.session.inbox.empty()


def test_connections_that_say_nothing_do_not_keep_the_page_out(server):
    # where the system's queue for them is full, it lets a connection wait for a second and more
    strangers = [socket.create_connection(("127.0.0.1", server.port), timeout=0.9) for _ in range(100)]
    assert ask(server, "GET", f"/{server.open().token}/")[0].status == 200
    for stranger in strangers:
        stranger.close()


def test_a_cut_result_and_a_closed_page_are_told(server):
    session = server.open()
    with socket.create_connection(("127.0.0.1", server.port)) as alive:
        alive.sendall(f"GET /{session.token}/alive?page=first HTTP/1.1\r\n\r\n".encode())
        assert b"200" in alive.recv(100)
        with socket.create_connection(("127.0.0.1", server.port)) as posting:
            head = f"POST /{session.token}/exchange HTTP/1.1\r\nX-Page: first\r\nContent-Length: 1000\r\n\r\n"
            posting.sendall(head.encode() + bytes(10))
        assert session.inbox.get(timeout=5) == Gone("the transfer of the result was cut after 10 of 1000 bytes")
    assert "the page was closed" in session.inbox.get(timeout=5).reason
