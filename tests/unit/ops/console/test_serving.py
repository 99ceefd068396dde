"""The end of the console's process."""

from __future__ import annotations

import subprocess
import sys

from headgate.workers.process.exit_codes import EXIT_INTERRUPTED

ASKS_FOR_EVER = """
import socket, threading
from concurrent.futures import ThreadPoolExecutor
from headgate.ops.console.serving import Server, serve

never = threading.Event()
ThreadPoolExecutor(1).submit(never.wait)  # as a question to AWS that hangs

def interrupted(server, sockets):
    raise KeyboardInterrupt  # as uvicorn does once it has ended

Server.run = interrupted
print("the console")
with socket.socket() as listener:
    serve(lambda *_: None, listener)
"""


def test_ctrl_c_ends_the_console_though_a_question_to_aws_hangs() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ASKS_FOR_EVER], stdout=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == EXIT_INTERRUPTED
    assert ended.stdout == "the console\n"
