# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a job on the nodes. One class for each transport: RANKS ranks, the first half on node 0."""

import os
import subprocess

RANKS = 4

# Says its rank and id, then becomes the program.
SCRIPT = 'echo ${OMPI_COMM_WORLD_RANK:-$TRIMTAB_RANK} $$ > "$0"; exec "$@"'


class Job:
    """Of one process per node or rank, or of one launcher: `starters`. Output of all is one text."""

    def __init__(self, folder, commands, environment):
        self.fifo = folder / "ids"
        os.mkfifo(self.fifo)
        self.said = open(folder / "said", "w+", encoding="utf-8", errors="replace")
        self.starters = [subprocess.Popen(self.announcing(command), cwd=folder, stdout=self.said, stderr=self.said,
                                          env={**os.environ, **environment, **own})
                         for command, own in commands]

    def announcing(self, command):
        launcher, program = command
        return [*launcher, "sh", "-c", SCRIPT, str(self.fifo), *map(str, program)]

    def await_ranks(self):
        """By rank: the ids of the processes, once all have begun."""
        pids = {}
        while len(pids) < RANKS:
            with open(self.fifo, encoding="ascii") as ids:
                pids.update((int(rank), int(pid)) for rank, pid in (line.split() for line in ids))
        self.fifo.unlink()
        return pids

    def finish(self, within_s):
        """@return the worst status and what all said."""
        statuses = [starter.wait(timeout=within_s) for starter in self.starters]
        with self.said:
            self.said.seek(0)
            return max(statuses, key=abs), self.said.read()


class MpiLauncher:
    """One mpirun on node 0, which starts its daemon on node 1 by entering the namespace. Inside a node too bytes go through
    TCP, so that they can be counted; the daemons notice within seconds that they cannot reach each other."""

    transport = "mpi"
    # The program names who is silent; before all are connected, MPI itself may name an address first.
    says_of_cut = r"(?m)^trimtab run: (rank \d: |MPI_)|to the peer 10\.77\.0\.\d"

    @staticmethod
    def why_not():
        if "Open MPI" in subprocess.run(["mpirun", "--version"], text=True, capture_output=True, check=False).stdout:
            return None
        return "mpirun is not that of Open MPI"

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


LAUNCHERS = {launcher.transport: launcher for launcher in (MpiLauncher,)}
