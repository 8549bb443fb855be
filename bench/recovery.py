# SPDX-License-Identifier: Apache-2.0
"""How long a service takes to go on when one of its ranks is killed, from the moment its survivors notice until they
have completed a forward: real processes over ucx, with every expert on two ranks, and with some read back from disk
beside the twin, a plain read of as many bytes."""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import table

BASE = [
    "run", "--transport", "ucx", "--ranks", "4", "--forwards", "16", "--tokens", "64", "--inject-fault", "kill:2",
]  # fmt: skip
SERVICES = {
    "recovery/no expert lost": ["--slots-per-rank", "128", "--hidden", "128", "--intermediate", "128"],
    "recovery/experts from disk": ["--slots-per-rank", "11", "--hidden", "1024", "--intermediate", "512", "--top-k", "2"],
}
CHUNK = 1 << 20


def plain_read_s(size):
    """Seconds for `size` bytes of a file that was just written, as the service's checkpoint was."""
    with tempfile.NamedTemporaryFile() as file:
        chunk = os.urandom(CHUNK)
        for _ in range(0, size, CHUNK):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        begin = time.perf_counter()
        for at in range(0, size, CHUNK):
            os.pread(file.fileno(), CHUNK, at)
        return time.perf_counter() - begin


def one_death(program, options):
    """The part of one run's document that tells of the death. The run itself compares every output."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run.json"
        done = subprocess.run([program, *BASE, *options, "--json", out], capture_output=True, text=True)
        if done.returncode != 0:
            raise table.BadRun(f"{' '.join(BASE)} ended with status {done.returncode}: {done.stderr.strip()}")
        document = json.loads(out.read_text())
    if not document["outputs_identical"] or len(document["death"]["members"]) != 3:
        raise table.BadRun(f"a death was not survived: {document['death']}")
    return document["death"]


def row(name, seconds, counters=None):
    in_ns = [1e9 * value for value in seconds]
    return {
        "name": name,
        "median_ns": statistics.median(in_ns),
        "p95_ns": table.percentile(in_ns, 0.95),
        "counters": counters or {},
    }


def rows_of(program, repetitions):
    rows = []
    for name, options in SERVICES.items():
        deaths = [one_death(program, options) for _ in range(repetitions)]
        sizes = [death["bytes_recovered"] for death in deaths]
        if (max(sizes) == 0) != name.endswith("no expert lost"):
            raise table.BadRun(f"{name}: {sizes} bytes were read back")
        longest = max(death["recovery_ms"] for death in deaths)
        counters = {"longest_ms": longest, "bytes_recovered": statistics.median(sizes)}
        rows.append(row(name, [death["recovery_ms"] / 1e3 for death in deaths], counters))
        if max(sizes) > 0:
            rows.append(row(f"{name}/twin", [plain_read_s(size) for size in sizes]))
    return rows
