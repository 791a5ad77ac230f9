#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drives a built http_server through everything its README promises.

Usage: test_http_server.py SERVER [unittest options]
Only the standard library. Waits for conditions, never for a fixed time, except
where the passing of time is what is tested.
"""
import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

SERVER = None
SLOW = float(os.environ.get("TEST_SLOWNESS", "1"))  # sanitizers: 5
WAIT = 20 * SLOW  # long enough for anything that does happen


class Server:
    """A running http_server; `with` stops it and checks that it ended well."""

    def __init__(self, *options, loops=2, expect=0):
        self.expect = expect
        self.clients = []
        self.process = subprocess.Popen(
            [SERVER, "--port", "0", "--loops", str(loops), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening on (.*):(\d+)\n", line)
        if not found:
            self.process.kill()
            raise AssertionError(
                f"said {line!r}, {self.process.communicate()[1]!r}")
        self.host = found[1].strip("[]")
        self.port = int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind is None:
            self.stop()
        else:
            self.process.kill()
            print(self.process.communicate()[1], file=sys.stderr)
        self.close_clients()

    def close_clients(self):
        for client in self.clients:
            client.socket.close()

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.end()

    def end(self):
        _, errors = self.process.communicate(timeout=WAIT)
        if self.process.returncode != self.expect:
            raise AssertionError(
                f"exit {self.process.returncode}, not {self.expect}: {errors}")

    def open(self):
        self.clients.append(Client(self.host, self.port))
        return self.clients[-1]

    def get(self, path, method="GET", body=None, headers=None):
        connection = http.client.HTTPConnection(
            self.host, self.port, timeout=WAIT)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        answer.body = answer.read()
        connection.close()
        return answer

    def stats(self):
        return json.loads(self.get("/stats").body)

    def total(self, counter):
        return sum(loop[counter] for loop in self.stats()["loops"])

    def await_stats(self, condition):
        end = time.monotonic() + WAIT
        while not condition(stats := self.stats()):
            if time.monotonic() > end:
                raise AssertionError(f"never true: {stats}")
            time.sleep(0.01)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


class Client:
    """A raw socket that reads answers one by one."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=WAIT)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.socket.close()

    def send(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def get(self, path, fields="", method="GET"):
        self.send(f"{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")

    def more(self):
        got = self.socket.recv(65536)
        self.buffer += got
        return got

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.more():
                raise EOFError(self.buffer)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode()

    def head(self):
        status = int(self.line().split()[1])
        headers = {}
        while line := self.line():
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        return status, headers

    def answer(self, has_body=True):
        status, headers = self.head()
        length = int(headers.get("content-length", 0)) if has_body else 0
        while len(self.buffer) < length:
            if not self.more():
                raise EOFError(self.buffer)
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Answer(status, headers, body)

    def ended(self):
        """True if the server has closed and sent nothing more."""
        try:
            return self.buffer == b"" and self.more() == b""
        except ConnectionResetError:
            return True

    def reset(self):
        self.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Endpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-body", "100000")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.server.close_clients()

    def test_root_is_a_fixed_text(self):
        answer = self.server.get("/")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.body, b"hello from an actor\n")
        self.assertRegex(answer.headers["Date"], r"^\w{3}, \d\d \w{3} \d{4} "
                         r"\d\d:\d\d:\d\d GMT$")

    def test_head_has_the_length_but_no_body(self):
        with self.server.open() as client:
            client.get("/", method="HEAD")
            answer = client.answer(has_body=False)
            self.assertEqual(answer.headers["content-length"], "20")
            client.get("/")  # nothing of a body is in the way
            self.assertEqual(client.answer().body, b"hello from an actor\n")

    def test_work_takes_the_time_it_was_given(self):
        begin = time.monotonic()
        answer = self.server.get("/work?us=50000")
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.body.startswith(b"worked 50000 us"))
        self.assertGreaterEqual(time.monotonic() - begin, 0.05)

    def test_work_takes_only_whole_numbers_in_range(self):
        for good in ("us=0", "us=7", "a=1&us=7&b=2", "us=0000007"):
            self.assertEqual(self.server.get("/work?" + good).status, 200)
        for bad in ("us=1000001", "us=-1", "us=", "us=1.5", "us=1e3", "us=x",
                    "us=99999999999999999999", "us=+1", "us=%31", "", "us",
                    "us=1&us=2", "xus=1", "us=1 "[:-1] + "_"):
            self.assertEqual(self.server.get("/work?" + bad).status, 400, bad)
        self.assertEqual(self.server.get("/work").status, 400)

    def test_hash_is_sha256_of_the_body(self):
        for body in (b"", b"abc", os.urandom(99999), b"x" * 100000):
            answer = self.server.get("/hash", "POST", body)
            expected = hashlib.sha256(body).hexdigest() + "\n"
            self.assertEqual(answer.body.decode(), expected)

    def test_hash_of_a_chunked_body_with_trailer(self):
        with self.server.open() as client:
            client.get("/hash", "Transfer-Encoding: Chunked \r\n", "POST")
            client.send("3;x=y\r\nabc\r\n")
            client.send("A\r\n0123456789\r\n0\r\nHost: trailer\r\n\r\n")
            self.assertEqual(client.answer().body.decode(),
                             hashlib.sha256(b"abc0123456789").hexdigest()
                             + "\n")
            client.get("/")
            self.assertEqual(client.answer().status, 200)

    def test_hash_of_a_body_in_single_bytes(self):
        with self.server.open() as client:
            for byte in b"POST /hash HTTP/1.1\r\nHost: a\r\n" \
                        b"Content-Length: 3\r\n\r\nabc":
                client.send(bytes([byte]))
            self.assertEqual(client.answer().body.decode(),
                             hashlib.sha256(b"abc").hexdigest() + "\n")

    def test_stats_are_json_that_adds_up(self):
        before = self.server.stats()
        for _ in range(20):
            self.server.get("/")
        after = self.server.stats()
        self.assertEqual(len(after["actors"]), 16)
        self.assertEqual(len(after["loops"]), 2)
        done = [sum(actor["handled"] for actor in stats["actors"])
                for stats in (before, after)]
        self.assertGreaterEqual(done[1] - done[0], 20)
        self.assertGreater(after["troupe"]["handled"], 20)
        self.assertGreaterEqual(after["troupe"]["actors"], 16)
        self.assertGreaterEqual(after["inflight"], 1)  # this very request

    def test_requests_are_spread_over_actors_and_loops(self):
        for _ in range(64):
            self.server.get("/")
        stats = self.server.stats()
        self.assertTrue(all(a["handled"] > 0 for a in stats["actors"]), stats)
        self.assertTrue(all(l["requests"] > 0 for l in stats["loops"]), stats)

    def test_stats_show_the_router(self):
        before = self.server.stats()["router"]
        for _ in range(10):
            self.server.get("/")
        after = self.server.stats()["router"]
        self.assertEqual((after["routing"], after["routees"]), ("smallest", 16))
        self.assertEqual(after["routed"] - before["routed"], 11)
        self.assertGreater(after["pick_samples"], 0)
        self.assertEqual((after["empty"], after["refused"]), (0, 0))

    def test_unknown_path_is_404(self):
        for path in ("/x", "/work/", "//", "/hash?", "/hash/1", "/%2F"):
            expected = 405 if path == "/hash?" else 404
            self.assertEqual(self.server.get(path).status, expected, path)

    def test_wrong_method_is_405_and_says_which(self):
        for method, path, allow in (
                ("POST", "/", "GET, HEAD"), ("DELETE", "/work", "GET, HEAD"),
                ("GET", "/hash", "POST"), ("HEAD", "/hash", "POST"),
                ("OPTIONS", "/stats", "GET, HEAD"), ("TRACE", "/", "GET, HEAD")):
            answer = self.server.get(path, method)
            self.assertEqual((answer.status, answer.headers["Allow"]),
                             (405, allow), (method, path))

    def test_absolute_target(self):
        with self.server.open() as client:
            client.get("http://a/work?us=1")
            self.assertEqual(client.answer().status, 200)
            client.get("http://a")
            self.assertEqual(client.answer().body, b"hello from an actor\n")

    def test_upgrade_is_ignored(self):
        with self.server.open() as client:
            client.get("/", "Connection: Upgrade\r\nUpgrade: h2c\r\n")
            self.assertEqual(client.answer().status, 200)
            client.get("/")
            self.assertEqual(client.answer().status, 200)


class Connections(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-body", "100000")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.server.close_clients()

    def test_keep_alive_is_the_default_of_1_1(self):
        with self.server.open() as client:
            for _ in range(10):
                client.get("/")
                self.assertNotIn("connection", client.answer().headers)

    def test_close_is_obeyed(self):
        with self.server.open() as client:
            client.get("/", "Connection: close\r\n")
            self.assertEqual(client.answer().headers["connection"], "close")
            self.assertTrue(client.ended())

    def test_requests_after_close_are_ignored(self):
        with self.server.open() as client:
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                        "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(client.answer().headers["connection"], "close")
            self.assertTrue(client.ended())

    def test_http_1_0(self):
        with self.server.open() as client:
            client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            self.assertEqual(
                client.answer().headers["connection"], "keep-alive")
            client.send("GET / HTTP/1.0\r\n\r\n")
            self.assertEqual(client.answer().headers["connection"], "close")
            self.assertTrue(client.ended())

    def test_pipelined_answers_come_in_order(self):
        delays = [20000, 0, 5000, 0, 0, 10000, 1, 2, 3]
        with self.server.open() as client:
            client.send("".join(f"GET /work?us={us} HTTP/1.1\r\nHost: a\r\n\r\n"
                                for us in delays))
            for us in delays:
                self.assertIn(f"worked {us} us", client.answer().body.decode())

    def test_pipelined_kinds_keep_their_order(self):
        with self.server.open() as client:
            client.send(
                "GET /work?us=20000 HTTP/1.1\r\nHost: a\r\n\r\n"
                "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
                "POST /hash HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
                "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
                "BAD\r\n\r\n")
            self.assertIn(b"worked", client.answer().body)
            self.assertEqual(client.answer().status, 404)
            self.assertEqual(len(client.answer().body), 65)
            self.assertEqual(client.answer(has_body=False).status, 200)
            self.assertEqual(client.answer().body, b"hello from an actor\n")
            self.assertEqual(client.answer().status, 400)
            self.assertTrue(client.ended())

    def test_deep_pipeline(self):
        targets = [f"/work?us={n % 10}" for n in range(5000)]
        for n, answer in enumerate(self.pipeline(targets)):
            self.assertIn(f"worked {n % 10} us", answer.body.decode())

    def test_deep_pipeline_of_long_answers(self):
        for answer in self.pipeline(["/stats"] * 500):
            self.assertIn("loops", json.loads(answer.body))

    def pipeline(self, targets):
        """Sends and reads at the same time, as a pipelining client must."""
        text = "".join(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"
                       for target in targets)
        with self.server.open() as client:
            sender = threading.Thread(target=client.send, args=(text,))
            sender.start()
            answers = [client.answer() for _ in targets]
            sender.join()
        return answers

    def test_client_that_never_reads_is_not_read_for_ever(self):
        with self.server.open() as client:
            client.socket.settimeout(1 * SLOW)
            request = b"GET /stats HTTP/1.1\r\nHost: a\r\n\r\n" * 1000
            with self.assertRaises(TimeoutError):
                for _ in range(10000):  # 340 MB: no buffer is that large
                    client.socket.sendall(request)
            client.reset()
        self.server.await_stats(
            lambda s: sum(l["connections"] for l in s["loops"]) == 1)

    def test_half_closed_client_gets_its_answers(self):
        with self.server.open() as client:
            client.send("GET /work?us=20000 HTTP/1.1\r\nHost: a\r\n\r\n"
                        "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            client.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(client.answer().status, 200)
            answer = client.answer()
            self.assertEqual(answer.headers["connection"], "close")
            self.assertTrue(client.ended())

    def test_expect_continue(self):
        with self.server.open() as client:
            client.get("/hash", "Content-Length: 3\r\nExpect: 100-continue\r\n",
                       "POST")
            self.assertEqual(client.head(), (100, {}))
            client.send("abc")
            self.assertEqual(client.answer().status, 200)
            client.get("/work?us=20000")  # not before the answer to this one
            client.get("/hash", "Content-Length: 3\r\nExpect: 100-Continue\r\n",
                       "POST")
            self.assertEqual(client.answer().status, 200)
            self.assertEqual(client.head(), (100, {}))
            client.send("abc")
            self.assertEqual(client.answer().status, 200)

    def test_expect_continue_of_what_is_refused(self):
        for path, length, status in (("/hash", 100001, 413), ("/x", 3, 404)):
            with self.server.open() as client:
                client.get(path, f"Content-Length: {length}\r\n"
                           "Expect: 100-continue\r\n", "POST")
                self.assertEqual(client.answer().status, status)
                self.assertTrue(client.ended())

    def test_closed_while_its_request_is_in_an_actor(self):
        before = self.server.total("orphans")
        for _ in range(50):  # one try is enough unless the machine is busy
            client = self.server.open()
            for _ in range(3):
                client.get("/work?us=50000")
            time.sleep(0.02)
            client.reset()
            self.assertEqual(  # may use the slot meanwhile
                self.server.get("/").body, b"hello from an actor\n")
            self.server.await_stats(  # only these statistics are in an actor
                lambda s: sum(l["waiting"] for l in s["loops"]) == 1)
            if self.server.total("orphans") > before:
                break
        self.assertGreater(self.server.total("orphans"), before)
        self.server.await_stats(
            lambda s: sum(l["connections"] for l in s["loops"]) == 1)


class BadRequests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-body", "1000")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.server.close_clients()

    def refused(self, text, status):
        with self.server.open() as client:
            client.send(text)
            answer = client.answer()
            self.assertEqual(answer.status, status, text[:80])
            self.assertEqual(answer.headers["connection"], "close")
            self.assertTrue(client.ended())
        self.assertEqual(self.server.get("/").status, 200)

    def test_malformed_is_400(self):
        for text in ("GET\r\n\r\n", "nonsense\r\n\r\n", "\x16\x03\x01\x02",
                     "get / HTTP/1.1\r\n\r\n", "GET / HTTP/x\r\n\r\n",
                     "GET  HTTP/1.1\r\n\r\n",
                     "GET x HTTP/1.1\r\nHost: a\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: a\r\nbad name: 1\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n",
                     "POST /hash HTTP/1.1\r\nHost: a\r\n"
                     "Transfer-Encoding : chunked\r\n\r\n",
                     "GET / HTTP/1.1\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            self.refused(text, 400)

    def test_framing_that_can_be_read_two_ways_is_400(self):
        head = "POST /hash HTTP/1.1\r\nHost: a\r\n"
        for fields in ("Content-Length: 3\r\nContent-Length: 4\r\n",
                       "Content-Length: x\r\n", "Content-Length: -1\r\n",
                       "Content-Length: 3 4\r\n",
                       "Content-Length: 99999999999999999999999\r\n",
                       "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"):
            self.refused(head + fields + "\r\nabc", 400)
        self.refused(head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400)
        self.refused("POST /hash HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "0\r\n\r\n", 400)

    def test_too_long_a_body_is_413(self):
        head = "POST /hash HTTP/1.1\r\nHost: a\r\n"
        self.refused(head + "Content-Length: 1001\r\n\r\n", 413)
        self.refused(head + "Content-Length: 1000000000000\r\n\r\n" + "x" * 99,
                     413)
        for path in ("/hash", "/nothing"):
            self.refused(f"POST {path} HTTP/1.1\r\nHost: a\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n"
                         + ("100\r\n" + "x" * 256 + "\r\n") * 4, 413)

    def test_413_reaches_a_client_that_sends_on(self):
        with self.server.open() as client:
            client.get("/hash", "Content-Length: 3000000\r\n", "POST")
            client.send(b"x" * 3000000)
            self.assertEqual(client.answer().status, 413)

    def test_too_long_a_target_is_414(self):
        self.refused("GET /" + "x" * 8192 + " HTTP/1.1\r\nHost: a\r\n\r\n", 414)
        self.refused("GET /" + "x" * 200000, 414)

    def test_longest_target_is_no_414(self):
        with self.server.open() as client:
            client.get("/" + "x" * 8191)
            self.assertEqual(client.answer().status, 404)

    def test_too_long_a_header_is_431(self):
        start = "GET / HTTP/1.1\r\nHost: a\r\n"
        self.refused(start + "X: " + "y" * 17000 + "\r\n\r\n", 431)
        self.refused(start + "X: y\r\n" * 9000 + "\r\n", 431)
        self.refused(start + "X" * 17000, 431)
        self.refused(start + "X: " + " " * 200000, 431)

    def test_unknown_encodings_are_501(self):
        head = "POST /hash HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
        for coding in ("gzip", "gzip, chunked", "chunked, chunked",
                       "chunked\r\nTransfer-Encoding: chunked", "x" * 40,
                       "identity"):
            self.refused(head + coding + "\r\n\r\n", 501)
        self.refused("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501)

    def test_other_versions_are_505(self):
        self.refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505)
        self.refused("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505)

    def test_other_expectations_are_417(self):
        self.refused("POST /hash HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n"
                     "Content-Length: 1\r\n\r\n", 417)

    def test_random_bytes_do_no_harm(self):
        seed = 12345
        for _ in range(300):
            data = bytearray()
            for _ in range(200):
                seed = (seed * 1103515245 + 12345) % 2**31
                data.append(seed >> 16 & 0xff)
            base = bytearray(b"POST /hash HTTP/1.1\r\nHost: a\r\n"
                             b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            for at in range(0, 20, 2):
                base[data[at] % len(base)] = data[at + 1]
            with self.server.open() as client:
                with contextlib.suppress(OSError):
                    client.send(bytes(base if seed & 1 else data))
                    client.socket.shutdown(socket.SHUT_WR)
                    while client.more():
                        pass
        self.assertEqual(self.server.get("/").status, 200)


class Limits(unittest.TestCase):
    def test_503_beyond_max_inflight(self):
        with Server("--max-inflight", "2", "--workers", "2") as server:
            slow = [server.open() for _ in range(2)]
            for client in slow:
                client.get("/work?us=500000")
            time.sleep(0.1 * SLOW)
            with server.open() as client:
                client.get("/")
                answer = client.answer()
                self.assertEqual(answer.status, 503)
                self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
                for busy in slow:
                    self.assertEqual(busy.answer().status, 200)
                client.get("/")  # the connection has stayed open
                self.assertEqual(client.answer().status, 200)
            self.assertGreaterEqual(server.total("busy"), 1)

    def test_slow_clients_time_out(self):
        with Server("--idle-timeout-ms", "200") as server:
            begin = time.monotonic()
            with server.open() as client:  # says nothing
                self.assertTrue(client.ended())
            self.assertGreaterEqual(time.monotonic() - begin, 0.19)
            with server.open() as client:  # stops half-way
                client.send("GET / HT")
                self.assertEqual(client.answer().status, 408)
                self.assertTrue(client.ended())
            with server.open() as client:  # keeps alive, then says nothing
                client.get("/")
                self.assertEqual(client.answer().status, 200)
                self.assertTrue(client.ended())
            self.assertGreaterEqual(server.total("timeouts"), 3)

    def test_drip_feeding_does_not_buy_time(self):
        with Server("--idle-timeout-ms", "300") as server:
            with server.open() as client:
                client.socket.settimeout(0.02)
                begin = time.monotonic()
                with contextlib.suppress(OSError):
                    for byte in "GET / HTTP/1.1\r\nX: " + "y" * 4000:
                        client.send(byte)
                        with contextlib.suppress(TimeoutError):
                            client.more()
                        if client.buffer:
                            break
                self.assertIn(b"408", client.buffer)
                self.assertLess(time.monotonic() - begin, 5 * SLOW)

    def test_slow_answers_are_no_slow_clients(self):
        with Server("--idle-timeout-ms", "100") as server:
            with server.open() as client:
                client.get("/work?us=400000")
                self.assertEqual(client.answer().status, 200)

    def test_a_client_that_does_not_read_times_out(self):
        with Server("--idle-timeout-ms", "300", "--actors", "64") as server:
            with server.open() as client:
                client.socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.socket.settimeout(WAIT)
                with self.assertRaises(ConnectionError):
                    for _ in range(100000):
                        client.get("/stats")

    def test_many_connections(self):
        with Server() as server:
            clients = [server.open() for _ in range(400)]
            for client in clients:
                client.get("/work?us=10")
            for client in clients:
                self.assertEqual(client.answer().status, 200)
            for client in clients:
                client.socket.close()
            server.await_stats(
                lambda s: sum(l["connections"] for l in s["loops"]) == 1)

    def test_out_of_descriptors_is_survived(self):
        limited = subprocess.Popen(
            ["sh", "-c", 'ulimit -n 64; exec "$0" --port 0 --loops 1', SERVER],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        port = int(limited.stdout.readline().rsplit(":", 1)[1])
        clients = [Client("127.0.0.1", port) for _ in range(100)]
        for client in clients[:10]:
            client.get("/")
            self.assertEqual(client.answer().status, 200)
        for client in clients[:60]:
            client.socket.close()
        clients[99].get("/")  # waited in the backlog
        self.assertEqual(clients[99].answer().status, 200)
        for client in clients:
            client.socket.close()
        limited.terminate()
        limited.communicate(timeout=WAIT)
        self.assertEqual(limited.returncode, 0)


class Stop(unittest.TestCase):
    def test_requests_in_flight_are_answered(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server("--workers", "2") as server:
                clients = [server.open() for _ in range(8)]
                for client in clients:
                    client.get("/work?us=100000")
                time.sleep(0.02)  # in actors, in mailboxes, or in the kernel
                server.process.send_signal(number)
                for client in clients:
                    answer = client.answer()
                    self.assertEqual(answer.status, 200)
                    self.assertEqual(answer.headers["connection"], "close")
                    self.assertTrue(client.ended())
                server.end()

    def test_request_that_is_arriving_may_complete(self):
        with Server(loops=1) as server:
            idle = server.open()
            with server.open() as client:
                client.get("/hash", "Content-Length: 3\r\n", "POST")
                client.send("a")
                server.await_stats(
                    lambda s: sum(l["connections"] for l in s["loops"]) == 3)
                server.process.send_signal(signal.SIGTERM)
                self.assertTrue(idle.ended())  # so the loop knows
                client.send("bc")
                answer = client.answer()
                self.assertEqual(answer.status, 200)
                self.assertEqual(answer.headers["connection"], "close")
            server.end()

    def test_stops_listening(self):
        with Server("--workers", "1") as server:
            with server.open() as client:
                client.get("/work?us=300000")
                time.sleep(0.05 * SLOW)
                server.process.send_signal(signal.SIGTERM)
                self.assertIn("stopping", server.process.stderr.readline())
                with self.assertRaises(ConnectionError):
                    server.open().get("/")
                    server.open()
                self.assertEqual(client.answer().status, 200)
            server.end()

    def test_idle_connections_do_not_hold_it_up(self):
        with Server() as server:
            clients = [server.open() for _ in range(20)]
            for client in clients[:10]:
                client.get("/")
                self.assertEqual(client.answer().status, 200)
            begin = time.monotonic()
            server.stop()
            self.assertLess(time.monotonic() - begin, 0.8 * SLOW)
            for client in clients:
                self.assertTrue(client.ended())

    def test_second_signal_exits_at_once(self):
        with Server("--workers", "1", expect=-signal.SIGTERM) as server:
            with server.open() as client:
                for _ in range(20):
                    client.get("/work?us=1000000")
                time.sleep(0.1 * SLOW)
                server.process.send_signal(signal.SIGTERM)
                self.assertIn("stopping", server.process.stderr.readline())
                begin = time.monotonic()
                time.sleep(0.05)
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(WAIT)
                self.assertLess(time.monotonic() - begin, 2 * SLOW)

    def test_orphans_at_the_stop(self):
        with Server("--workers", "1") as server:
            for _ in range(5):
                client = server.open()
                client.get("/work?us=20000")
                time.sleep(0.005)
                client.reset()
            server.stop()


class Routing(unittest.TestCase):
    ALL = ("smallest", "round-robin", "random", "two-choices",
           "least-in-flight")

    def test_every_strategy_serves(self):
        for name in self.ALL:
            with Server("--routing", name, "--actors", "4") as server:
                for _ in range(20):
                    self.assertEqual(server.get("/").status, 200)
                stats = server.stats()
                self.assertEqual(stats["router"]["routing"], name)
                self.assertEqual(stats["router"]["routed"], 21)
                self.assertEqual(stats["troupe"]["dead"], 0)

    def test_round_robin_gives_each_as_many(self):
        with Server("--routing", "round-robin", "--actors", "4") as server:
            for _ in range(400):
                server.get("/")
            took = [actor["handled"] for actor in server.stats()["actors"]]
            self.assertEqual(len(took), 4)
            self.assertLessEqual(max(took) - min(took), 2, took)  # at work

    def test_least_in_flight_passes_by_who_is_busy(self):
        with Server("--routing", "least-in-flight", "--workers", "2") as server:
            busy = server.open()
            busy.send("GET /work?us=1000000 HTTP/1.1\r\nHost: x\r\n\r\n")
            server.await_stats(lambda stats: stats["inflight"] == 2)
            for _ in range(32):  # round all 16, twice
                server.get("/")
            self.assertEqual(server.stats()["inflight"], 2)  # still at it
            self.assertEqual(busy.answer().status, 200)


class CommandLine(unittest.TestCase):
    def run_server(self, *arguments):
        return subprocess.run([SERVER, *arguments], capture_output=True,
                              text=True, timeout=WAIT)

    def test_help_and_version(self):
        for option, text in (("--help", "--max-inflight"),
                             ("--version", "troupe 0.")):
            done = self.run_server(option)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(text, done.stdout)

    def test_bad_options_say_option_rule_and_value(self):
        for arguments, words in (
                (("--port", "65536"), ("--port", "0 to 65535", '"65536"')),
                (("--port=x",), ("--port", "whole number", '"x"')),
                (("--port", "-1"), ("--port", "whole number", '"-1"')),
                (("--port", " 1"), ("--port", "whole number", '" 1"')),
                (("--port", ""), ("--port", "whole number", '""')),
                (("--actors", "0"), ("--actors", "1 to 4096", '"0"')),
                (("--max-inflight", "0"), ("--max-inflight", '"0"')),
                (("--max-body", "99999999999999999999"), ("--max-body",)),
                (("--idle-timeout-ms", "1"), ("--idle-timeout-ms", '"1"')),
                (("--workers", "1025"), ("--workers", "1024", '"1025"')),
                (("--address", "localhost"), ("--address", '"localhost"')),
                (("--routing", "best"),
                 ("--routing", '"best"', *Routing.ALL)),
                (("--routing",), ("--routing", "needs a value")),
                (("--port",), ("--port", "needs a value")),
                (("--nonsense",), ("--nonsense", "not an option")),
                (("--help=1",), ("--help=1",)), (("-x",), ("-x",)),
                (("stray",), ("stray", "not an option"))):
            done = self.run_server(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_a_port_in_use_is_said(self):
        with Server() as server:
            done = self.run_server("--port", str(server.port))
            self.assertEqual(done.returncode, 1)
            self.assertIn("in use", done.stderr)

    def test_ipv6(self):
        if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
            self.skipTest("no IPv6 here")
        with Server("--address", "::1") as server:
            self.assertEqual(server.get("/").status, 200)

    def test_bad_environment_is_said(self):
        done = subprocess.run([SERVER, "--port", "0"], capture_output=True,
                              text=True, timeout=WAIT,
                              env={**os.environ, "TROUPE_THROUGHPUT": "many"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("TROUPE_THROUGHPUT", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    SERVER = sys.argv.pop(1)
    unittest.main(verbosity=2)
