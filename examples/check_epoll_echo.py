#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Talks to epoll_echo. Usage: check_epoll_echo.py PROGRAM"""
import signal
import socket
import subprocess
import sys

LINES = 200


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=30)


server = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
try:
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    clients = [connect(port) for _ in range(10)]
    files = [client.makefile("rw", newline="\n") for client in clients]
    for n in range(LINES):
        for number, file in enumerate(files):
            file.write(f"line {n} of {number}\n")
            file.flush()
        connect(port).close()  # comes and goes: its number is used again
        for number, file in enumerate(files):
            got = file.readline()
            assert got == f"LINE {n} OF {number}\n", got
    clients[0].sendall(b"one\ntwo\nthr")  # several lines, one in two parts
    clients[0].sendall(b"ee\n")
    got = [files[0].readline() for _ in range(3)]
    assert got == ["ONE\n", "TWO\n", "THREE\n"], got
    clients[1].sendall(b"x" * 300)  # too long
    try:
        assert clients[1].recv(1) == b""
    except ConnectionResetError:
        pass
    for _ in range(50):  # gone before the answer
        gone = connect(port)
        gone.sendall(b"bye\n")
        gone.close()
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
finally:
    server.kill()
print("ok")
