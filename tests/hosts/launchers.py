# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a job on the nodes. One class for each transport: RANKS ranks, the first half on node 0."""

import os
import re
import select
import signal
import subprocess
import time

RANKS = 4
ANNOUNCED_WITHIN_S = 30  # For a busy machine.

# Says its rank and id, then becomes the program.
SCRIPT = 'echo ${OMPI_COMM_WORLD_RANK:-$TRIMTAB_RANK} $$ > "$0"; exec "$@"'


class Job:
    """Of one process per node or rank, or of one launcher: `starters`. Output of all is one text."""

    def __init__(self, folder, commands, environment):
        self.fifo = folder / "ids"
        os.mkfifo(self.fifo)
        # Open for writing too: it never ends, and never breaks under a rank that is about to write.
        self.ids = os.fdopen(os.open(self.fifo, os.O_RDWR), "rb", buffering=0)
        self.said = open(folder / "said", "w+", encoding="utf-8", errors="replace")
        self.starters = [subprocess.Popen(self.announcing(command), cwd=folder, stdout=self.said, stderr=self.said,
                                          env={**os.environ, **environment, **own})
                         for command, own in commands]

    def announcing(self, command):
        launcher, program = command
        return [*launcher, "sh", "-c", SCRIPT, str(self.fifo), *map(str, program)]

    def await_ranks(self):
        """By rank: the ids of the processes, once all have begun."""
        announced = b""
        with self.ids:
            while announced.count(b"\n") < RANKS:
                if not select.select([self.ids], [], [], ANNOUNCED_WITHIN_S)[0]:
                    raise TimeoutError(f"ranks that have begun: {announced.decode()}")
                announced += self.ids.read(4096)
        self.fifo.unlink()
        return dict(tuple(map(int, line.split())) for line in announced.decode().splitlines())

    def finish(self, within_s):
        """@return the status of each starter, and what all said."""
        until = time.monotonic() + within_s
        statuses = [starter.wait(timeout=max(until - time.monotonic(), 0.01)) for starter in self.starters]
        with self.said:
            self.said.seek(0)
            return statuses, self.said.read()


class MpiLauncher:
    """One mpirun on node 0, which starts its daemon on node 1 by entering the namespace. Inside a node too bytes go through
    TCP, so that they can be counted; the daemons notice within seconds that they cannot reach each other."""

    transport, has_survivors = "mpi", False
    # Headers of messages, TCP and Ethernet beside the payload, and acknowledgements; starting and ending the job.
    most_overhead, start_bytes = 1.10, 500000
    deadline_s, slack_s = 2, 25  # For a busy machine, and for daemons that find out on their own.

    @staticmethod
    def why_not():
        if "Open MPI" in subprocess.run(["mpirun", "--version"], text=True, capture_output=True, check=False).stdout:
            return None
        return "mpirun is not that of Open MPI"

    @staticmethod
    def check_loss(test, statuses, said, lost, begun):
        """`lost`: ranks that are dead or silent. The job ends with them."""
        test.assertNotEqual(statuses, [0], said)
        if not begun and "1 process returned" in said:
            return  # Before MPI knows a rank its launcher names none.
        # The program names who is silent; before all have met it cannot, and MPI itself may name an address first.
        test.assertRegex(said, rf"(?m)^trimtab run: MPI_Init|rank {lost[0]}" if len(lost) == 1 else
                         r"(?m)^trimtab run: (rank \d: |MPI_)|to the peer 10\.77\.0\.\d")

    def __init__(self, nodes, folder):
        self.nodes, self.folder = nodes, folder
        agent = folder / "agent"
        other = " ".join(nodes.inside(1, "unshare", "--uts"))
        agent.write_text(f'#!/bin/sh\nshift\nexec {other} sh -c "hostname trimtab-node1; $*"\n', encoding="ascii")
        agent.chmod(0o755)
        self.agent = agent

    def launch(self, *program):
        settings = {"plm_rsh_agent": self.agent, "btl": "tcp,self", "btl_tcp_if_include": "tt0",
                    "oob_tcp_if_include": "tt0", "oob_tcp_keepalive_time": 1, "oob_tcp_keepalive_intvl": 1,
                    "oob_tcp_keepalive_probes": 3}
        hosts = ",".join(f"{address}:{RANKS // 2}" for address in self.nodes.addresses)
        launcher = self.nodes.inside(0, "mpirun", "--oversubscribe", "--host", hosts, "-n", str(RANKS))
        for name, value in settings.items():
            launcher += ["--mca", name, str(value)]
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return Job(self.folder, [((launcher, program), {})], environment)


class UcxLauncher:
    """No launcher: every rank is started on its node and told where rank 0 is."""

    transport, has_survivors = "ucx", True
    port = 7077
    # Seen: 1.035 within and 1.039 between nodes with small messages and the meeting, 1.007 with large ones alone.
    most_overhead, start_bytes = 1.04, 250000
    deadline_s, slack_s = 3, 15  # For a busy machine.
    # What a rank ends with that loses others, or that the others lost without its being killed.
    status_of_loser = status_of_lost = 5

    @staticmethod
    def why_not():
        return None

    @classmethod
    def check_loss(cls, test, statuses, said, lost, begun):
        """`lost`: ranks that were killed, stopped or cut off. Each of the others names one it waits for."""
        del begun
        # An interface that goes while UCX opens it is no device, and there is nobody to name yet.
        num_bare = said.count("ucp_worker_create: No such device") if len(lost) > 1 else 0
        test.assertEqual(statuses.count(2), num_bare, said)
        for rank, status in enumerate(statuses):
            if status not in (-signal.SIGKILL, 2):
                test.assertEqual(status, cls.status_of_lost if rank in lost else cls.status_of_loser, said)
        speakers = [status for status in statuses if status > 0 and status != 2]
        test.assertEqual(len(re.findall(r"(?m)^trimtab run: .*\brank \d", said)), len(speakers), said)
        # Who only waits may end before the one that it waits for has said why; a death is seen at once.
        for rank in (rank for rank, status in enumerate(statuses) if status == -signal.SIGKILL):
            test.assertRegex(said, rf"(?m)^trimtab run: .*\brank {rank}\b")

    def __init__(self, nodes, folder):
        self.nodes, self.folder = nodes, folder

    def launch(self, *program):
        return Job(self.folder, [((self.nodes.inside(rank * 2 // RANKS), program), self.place_of(rank))
                                 for rank in range(RANKS)], {})

    def place_of(self, rank):
        return {"TRIMTAB_RANK": str(rank), "TRIMTAB_NUM_RANKS": str(RANKS),
                "TRIMTAB_BOOTSTRAP": f"{self.nodes.addresses[0]}:{self.port}"}


LAUNCHERS = {launcher.transport: launcher for launcher in (MpiLauncher, UcxLauncher)}
