# SPDX-License-Identifier: Apache-2.0
"""A receiver in a process of its own, to be killed.

Started with a configuration file; answers a line of JSON for each line that
it is given: ``["open", SNAPSHOT]``, ``["progress", SNAPSHOT]``,
``["finish", SNAPSHOT, RESULT]``, ``["close", SNAPSHOT]``.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import zlib

from stillframe import exceptions

ROOT = pathlib.Path(__file__).parents[3]


class Daemon:
    """``with Daemon(folder, database) as daemon: daemon.ask('open', ...)``.

    :ivar files: names the files that it has.
    """

    def __init__(self, path, database, host='conductor-1', **settings):
        self._config = path / 'stillframe.conf'
        self._folder = path / 'transfers'
        # The same each time, and nobody else's while it is down.
        port = 20000 + zlib.crc32(str(path).encode()) % 10000
        settings = {'path': self._folder, 'min_free': 0,
                    'port': port} | settings
        self._config.write_text('\n'.join([
            '[DEFAULT]', f'state_path = {path}', '[database]',
            f'connection = {database}', '[conductor]', f'host = {host}',
            '[receiver]',
            *(f'{key} = {value}' for key, value in settings.items())]))

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'tests.integration.receiver.daemon',
             str(self._config)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == 'ready\n'
        return self

    def __exit__(self, *_exc):
        self.kill()

    def kill(self):
        """End it as a crash does."""
        self.process.kill()
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()

    def ask(self, *words):
        """Have it do something; give what it says."""
        self.process.stdin.write(json.dumps(words) + '\n')
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def files(self):
        return sorted(one.name for one in self._folder.glob('*')
                      if one.suffix in ('.part', '.image'))


def main():
    from stillframe import service
    from stillframe.conductor import receiver
    from stillframe.db import base

    conf = service.prepare(['--config-file', sys.argv[1]], 'receiver')
    base.configure(conf)
    made = receiver.Receiver(conf)
    made.start()
    print('ready', flush=True)
    for line in sys.stdin:
        word, snapshot, *more = json.loads(line)
        try:
            if word == 'open':
                found = made.open(snapshot)
            elif word == 'progress':
                found = made.progress(snapshot)
            elif word == 'finish':
                found = made.finish(snapshot, *more)
            else:
                made.close(snapshot)
                found = None
        except exceptions.StillframeError as exc:
            print(json.dumps({'error': exc.code}), flush=True)
        else:
            print(json.dumps(found and dataclasses.asdict(found),
                             default=str), flush=True)


if __name__ == '__main__':
    main()
