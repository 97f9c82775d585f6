# SPDX-License-Identifier: Apache-2.0
"""Clients that ask as fast as they get answers, in a process of their own.

``python -m tools.bench.load`` reads a job as JSON from standard input and
writes what came of it as JSON to standard output. It is a process so that
clients and server do not share an interpreter, and speaks HTTP over bare
sockets so that it takes as little as it can of the machine it measures.
"""

import dataclasses
import itertools
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

_TIMEOUT = 30.0


@dataclasses.dataclass(frozen=True)
class Job:
    """What the clients do.

    :ivar paths: asked for one after another, each client taking the next;
        from the beginning again when ``again``, else that is the end.
    :ivar headers: of each request, besides Host and Content-Length.
    :ivar bodies: one for each of the paths; none: ``body`` for all.
    :ivar expected: the status that each answer must have.
    :ivar lenient: another status, or none, is counted as refused; else it
        ends the job.
    :ivar fresh: each request comes on a connection of its own.
    :ivar seconds: for which they ask.
    :ivar warm_up: seconds of asking before that, not counted.
    """

    port: int
    method: str
    paths: list[str]
    headers: dict[str, str]
    body: str = ''
    bodies: list[str] = dataclasses.field(default_factory=list)
    expected: int = 200
    lenient: bool = False
    fresh: bool = False
    clients: int = 8
    seconds: float = 8.0
    warm_up: float = 1.0
    again: bool = True


@dataclasses.dataclass(frozen=True)
class Answers:
    """What came of a job.

    :ivar seconds: from the first counted question to the last answer.
    :ivar times: seconds from each question to its answer.
    :ivar asked: questions that were answered, with those not counted.
    :ivar refused: questions that got another answer, or none, of all.
    :ivar refusal: the first of these.
    """

    seconds: float
    times: list[float]
    asked: int
    refused: int = 0
    refusal: str | None = None

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.times) / self.seconds


class Unexpected(Exception):
    """The server answered something else, or not at all."""


def run(job: Job) -> Answers:
    """Do a job in a new process.

    :raises Unexpected: an answer was not as expected.
    """
    done = subprocess.run(
        [sys.executable, '-m', 'tools.bench.load'],
        input=json.dumps(dataclasses.asdict(job)), text=True,
        capture_output=True, cwd=pathlib.Path(__file__).parents[2],
        timeout=job.seconds + job.warm_up + 60, check=False)
    if done.returncode:
        raise Unexpected(done.stderr.strip() or 'the clients crashed')
    return Answers(**json.loads(done.stdout))


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer.

    :ivar head: status line and headers.
    """

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        """Give a header, None when it is not there."""
        return header(self.head, name.lower().encode('ascii'))


class Connection:
    """One connection that is kept open."""

    def __init__(self, port: int):
        self._socket = socket.create_connection(('127.0.0.1', port),
                                                _TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b''

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, question: bytes) -> Answer:
        """Send a request; give the answer.

        :raises Unexpected: it is no answer, or has no length.
        """
        self._socket.sendall(question)
        while (end := self._unread.find(b'\r\n\r\n')) < 0:
            self._more()
        head = self._unread[:end]
        status, length = frame(head)
        while len(self._unread) < end + 4 + length:
            self._more()
        body = self._unread[end + 4:end + 4 + length]
        self._unread = self._unread[end + 4 + length:]
        return Answer(status, head, body)

    def _more(self) -> None:
        data = self._socket.recv(262144)
        if not data:
            raise Unexpected('the server hung up')
        self._unread += data


def frame(head: bytes) -> tuple[int, int]:
    """Read from the head of an answer how it is to be read.

    :return: status and length of the body.
    :raises Unexpected: it has neither length nor a status without a body.
    """
    status = int(head.split(b' ', 2)[1])
    length = header(head, b'content-length')
    if length is not None:
        return status, int(length)
    if status == 204:
        return status, 0
    raise Unexpected(f'an answer without a length: {head[:200]!r}')


def header(head: bytes, name: bytes) -> str | None:
    """Give a header, None when it is not there.

    :param name: in small letters.
    """
    for line in head.split(b'\r\n')[1:]:
        key, _, value = line.partition(b':')
        if key.lower() == name:
            return value.strip().decode('latin-1')
    return None


def question(method: str, path: str, headers: dict[str, str],
             body: str = '') -> bytes:
    """Write a request; all of it is ASCII."""
    lines = [f'{method} {path} HTTP/1.1', 'Host: 127.0.0.1']
    lines += [f'{key}: {value}' for key, value in headers.items()]
    if body:
        lines.append(f'Content-Length: {len(body)}')
    return ('\r\n'.join(lines) + '\r\n\r\n' + body).encode('ascii')


class _Clients:
    """The threads of one job."""

    def __init__(self, job: Job):
        self._job = job
        numbers = itertools.count()
        self._next = numbers.__next__
        begin = time.perf_counter() + job.warm_up
        self._begin, self._end = begin, begin + job.seconds
        self._lock = threading.Lock()
        self._times: list[float] = []
        self._last = begin
        self._asked = self._refused = 0
        self._refusal: str | None = None
        self._error: str | None = None

    def run(self) -> Answers:
        threads = [threading.Thread(target=self._client, name=f'client-{one}')
                   for one in range(self._job.clients)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        if self._error is not None:
            raise Unexpected(self._error)
        return Answers(self._last - self._begin, self._times, self._asked,
                       self._refused, self._refusal)

    def _client(self) -> None:
        times: list[float] = []
        last, answered = self._begin, 0
        connection = None
        try:
            for number in iter(self._number, None):
                asked = time.perf_counter()
                if asked >= self._end or self._error is not None:
                    break
                try:
                    connection = connection or Connection(self._job.port)
                    self._ask(connection, number)
                except (OSError, ValueError, Unexpected) as exc:
                    self._refuse(exc)
                    _hang_up(connection)
                    connection = None
                    continue
                last = time.perf_counter()
                answered += 1
                if asked >= self._begin:
                    times.append(last - asked)
                if self._job.fresh:
                    _hang_up(connection)
                    connection = None
        finally:
            _hang_up(connection)
        with self._lock:
            self._times += times
            self._last = max(self._last, last)
            self._asked += answered

    def _ask(self, connection: Connection, number: int) -> None:
        job = self._job
        path = job.paths[number]
        answer = connection.ask(question(
            job.method, path, job.headers,
            job.bodies[number] if job.bodies else job.body))
        if answer.status != job.expected:
            raise Unexpected(f'{job.method} {path}: {answer.status} '
                             f'{answer.body[:500]!r}')

    def _refuse(self, exc: Exception) -> None:
        reason = f'{type(exc).__name__}: {exc}'
        if not self._job.lenient:
            self._error = reason
        with self._lock:
            self._refused += 1
            self._refusal = self._refusal or reason

    def _number(self) -> int | None:
        number, count = self._next(), len(self._job.paths)
        if number < count or self._job.again:
            return number % count
        return None


def _hang_up(connection: Connection | None) -> None:
    if connection is not None:
        connection.close()


def main() -> int:
    """Do the job on standard input."""
    job = Job(**json.load(sys.stdin))
    try:
        answers = _Clients(job).run()
    except Unexpected as exc:
        print(exc, file=sys.stderr)
        return 1
    json.dump(dataclasses.asdict(answers), sys.stdout)
    return 0


if __name__ == '__main__':
    sys.exit(main())
