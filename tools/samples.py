# SPDX-License-Identifier: Apache-2.0
"""Writes the sample files in etc/stillframe from the code.

    python -m tools.samples [folder]

A test compares what is there with what this would write.
"""

import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
FOLDER = TOP / 'etc' / 'stillframe'

#: Sample, generator, and the generator's configuration.
SAMPLES = (
    ('stillframe.conf.sample', 'oslo-config-generator',
     'config-generator.conf'),
    ('policy.yaml.sample', 'oslopolicy-sample-generator',
     'policy-generator.conf'),
)


def write(folder: pathlib.Path) -> None:
    """Write all samples into a folder.

    :raises subprocess.CalledProcessError: a generator failed; it said why.
    """
    commands = pathlib.Path(sys.executable).parent
    for sample, generator, configuration in SAMPLES:
        subprocess.run(
            [commands / generator,
             '--config-file', FOLDER / configuration,
             '--output-file', folder / sample],
            check=True, cwd=TOP, timeout=120,
            # Defaults that come from the environment must not get in.
            env={'PATH': os.defpath, 'LANG': 'C.UTF-8'})


if __name__ == '__main__':
    write(pathlib.Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
