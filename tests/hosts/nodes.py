# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces as nodes, joined by a veth pair, that are gone again whatever happens to who made them."""

import json
import os
import signal
import subprocess
import time

PREFIX = "trimtab-hosts-"
LINK = "tt0"  # The same name on both nodes.


def ip(*arguments):
    return subprocess.run(["ip", *arguments], text=True, capture_output=True, check=True).stdout


def namespaces():
    return [line.split()[0] for line in ip("netns", "list").splitlines()]


def why_not():
    """Why no namespaces can be made here, or nothing."""
    name = f"{PREFIX}{os.getpid()}-trial"
    try:
        ip("netns", "add", name)
        try:
            ip("netns", "exec", name, "true")
        finally:
            ip("netns", "del", name)
    except FileNotFoundError:
        return "no network namespaces without the ip command"
    except subprocess.CalledProcessError as refused:
        return f"network namespaces may not be made here: {refused.stderr.strip()}"
    return None


def end_processes(namespace):
    """All that run in it, and what those begin meanwhile."""
    for _ in range(100):
        pids = ip("netns", "pids", namespace).split()
        if not pids:
            return
        for pid in map(int, pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def remove_namespaces(owner):
    """Those that the process `owner` made."""
    for namespace in namespaces():
        if namespace.startswith(f"{PREFIX}{owner}-"):
            end_processes(namespace)
            ip("netns", "del", namespace)


def remove_orphans():
    """What is left of makers that are gone together with their guardians."""
    for namespace in namespaces():
        if namespace.startswith(PREFIX):
            owner = namespace.removeprefix(PREFIX).partition("-")[0]
            if not os.path.exists(f"/proc/{owner}"):
                remove_namespaces(owner)


class Guardian:
    """A process that removes the namespaces of this one as soon as this one lets go, ends or is killed."""

    def __init__(self):
        owner = os.getpid()
        watched, self.held = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()  # Ctrl-C does not reach it.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.close(self.held)
            os.read(watched, 1)
            remove_namespaces(owner)
            os._exit(0)
        os.close(watched)

    def let_go(self):
        os.close(self.held)
        os.waitpid(self.pid, 0)


class Nodes:
    """To be used as a context: nodes 0 and 1, each with an address on the link."""

    addresses = ["10.77.0.1", "10.77.0.2"]

    def __enter__(self):
        remove_orphans()
        self.guardian = Guardian()
        try:
            self.build()
        except BaseException:
            self.guardian.let_go()
            raise
        return self

    def __exit__(self, *_):
        self.guardian.let_go()

    def build(self):
        for node in (0, 1):
            ip("netns", "add", self.name(node))
            ip("-n", self.name(node), "link", "set", "lo", "up")
        ip("link", "add", LINK, "netns", self.name(0), "type", "veth", "peer", "name", LINK, "netns", self.name(1))
        for node, address in enumerate(self.addresses):
            ip("-n", self.name(node), "addr", "add", f"{address}/24", "dev", LINK)
            ip("-n", self.name(node), "link", "set", LINK, "up")
            # Else a connection whose bytes nobody confirms lasts for a quarter of an hour.
            subprocess.run(self.inside(node, "sysctl", "-qw", "net.ipv4.tcp_retries2=3"), check=True)
        self.await_link()

    def await_link(self):
        """The kernel calls it up some time after both ends are; UCX takes no interface before."""
        for node in (0, 1):
            while json.loads(ip("-n", self.name(node), "-j", "link", "show", "dev", LINK))[0]["operstate"] != "UP":
                time.sleep(0.01)

    @staticmethod
    def name(node):
        return f"{PREFIX}{os.getpid()}-{node}"

    def inside(self, node, *command):
        """The command line that runs another one on a node."""
        return ["ip", "netns", "exec", self.name(node), *command]

    def cut(self):
        ip("-n", self.name(0), "link", "set", LINK, "down")

    def mend(self):
        ip("-n", self.name(0), "link", "set", LINK, "up")
        self.await_link()

    def bytes_between(self):
        """Sent over the link so far, both ways, headers included."""
        return sum(self.counters(0, LINK))

    def bytes_within(self):
        """Sent over loopback so far on both nodes."""
        return sum(self.counters(node, "lo")[1] for node in (0, 1))

    def counters(self, node, device):
        stats = json.loads(ip("-n", self.name(node), "-s", "-j", "link", "show", "dev", device))[0]["stats64"]
        return stats["rx"]["bytes"], stats["tx"]["bytes"]

    def processes(self):
        return [int(pid) for node in (0, 1) for pid in ip("netns", "pids", self.name(node)).split()]
