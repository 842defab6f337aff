#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""The metrics with the real Prometheus: its checks, its scrapes, its queries and its alerts."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # pylint: disable=wrong-import-position
import mps  # pylint: disable=wrong-import-position
from harness import contains, equal, wait_for  # pylint: disable=wrong-import-position
from test_metrics import dashboard_queries, free_port  # pylint: disable=wrong-import-position
from test_stats import WORK, worked  # pylint: disable=wrong-import-position

FLEET = os.path.join(harness.ROOT, "docs", "fleet")


def promtool(*words, text=None):
    """What it prints; it must accept everything."""
    done = subprocess.run([mps.need_program("promtool"), *words], input=text, text=True, cwd=FLEET,
                          capture_output=True, timeout=60, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    return done.stdout + done.stderr


def test_promtool_accepts_the_metrics():
    """Also with its opinions about names: those would be printed."""
    with mps.Service() as service:
        service.command("group", "create", "g")
        equal(promtool("check", "metrics", text=service.command("metrics").stdout), "")
        worked(service)
        worked(service, env={"MPS_GROUP": "g", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"})
        page = service.command("metrics").stdout
        contains(page, "mps_client_memory_limit_bytes{")
        equal(promtool("check", "metrics", text=page), "")


def test_promtool_accepts_the_rules():
    contains(promtool("check", "rules", "alerts.yml"), "SUCCESS")
    contains(promtool("test", "rules", "alerts_test.yml"), "SUCCESS")
    contains(promtool("check", "config", "prometheus.yml"), "SUCCESS")


def test_each_rule_is_tested():
    """For each alert there is a state in which it fires."""
    with open(FLEET + "/alerts.yml", encoding="utf-8") as file:
        alerts = [line.split()[-1] for line in file if "- alert: " in line]
    with open(FLEET + "/alerts_test.yml", encoding="utf-8") as file:
        tests = file.read().split("- eval_time: ")[1:]
    for alert in alerts:
        assert any("alertname: %s\n" % alert in test and "exp_labels" in test for test in tests), alert


class Prometheus:
    """A Prometheus that scrapes the port each second and evaluates the alert rules."""

    def __init__(self, target):
        self.program = mps.need_program("prometheus")
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="mps-prometheus-")
        shutil.copy(FLEET + "/alerts.yml", self.folder)
        with open(FLEET + "/prometheus.yml", encoding="utf-8") as file:
            config = file.read()
        contains(config, "localhost:9400")
        config = config.replace("localhost:9400", "127.0.0.1:%d" % target)
        config = config.replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s")
        with open(self.folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            file.write(config)
        self.log = open(self.folder + "/log", "w", encoding="utf-8")
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(
            [self.program, "--config.file=prometheus.yml", "--storage.tsdb.path=data",
             "--web.listen-address=127.0.0.1:%d" % self.port, "--log.level=warn"],
            cwd=self.folder, env=dict(os.environ, GOMAXPROCS="2"), stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)
        try:
            wait_for("Prometheus to be ready", self.is_ready, 60)
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, *failure):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        if failure[0]:
            with open(self.folder + "/log", encoding="utf-8") as file:
                print("    --- Prometheus\n%s" % file.read())
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_ready(self):
        assert self.process.poll() is None, "Prometheus has ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(
                "http://127.0.0.1:%d/-/ready" % self.port, timeout=10) as reply:
            return reply.status == 200
        return False

    def get(self, path, **values):
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self.port, path, urllib.parse.urlencode(values))
        with urllib.request.urlopen(url, timeout=30) as reply:
            found = json.load(reply)
        equal(found["status"], "success", found)
        return found["data"]

    def query(self, text):
        """[(labels, value)]"""
        return [(each["metric"], float(each["value"][1]))
                for each in self.get("query", query=text)["result"]]

    def value(self, text):
        """The value of the only series, or None."""
        found = self.query(text)
        assert len(found) <= 1, found
        return found[0][1] if found else None

    def alerts(self):
        return {(each["labels"]["alertname"], each["state"]) for each in self.get("alerts")["alerts"]}


def end(process):
    process.kill()
    process.wait()


def test_scrapes():
    """Series of clients come and go, sums stay, an alert fires, and every graph has data."""
    port = free_port()
    uid = os.getuid()
    user_launches = 'mps_user_launches_total{uid="%d"}' % uid
    with mps.Service(options=["-m", str(port)]) as service, Prometheus(port) as prometheus:
        wait_for("a scrape", lambda: prometheus.value('up{job="mps"}') == 1)
        equal(prometheus.value("mps_clients"), 0)
        service.command("group", "create", "g")
        first = worked(service, env={"MPS_GROUP": "g"})
        second = worked(service)
        of_first = 'mps_client_launches_total{pid="%d"}' % first.pid
        wait_for("both clients", lambda: prometheus.value("mps_clients") == 2)
        (labels, launches), = prometheus.query(of_first)
        equal(launches, WORK["launches"])
        equal({name: labels[name] for name in ("uid", "group", "server", "instance", "job")},
              {"uid": str(uid), "group": "g", "server": str(service.server()),
               "instance": "127.0.0.1:%d" % port, "job": "mps"})
        equal(prometheus.value(user_launches), 2 * WORK["launches"])
        end(first)
        wait_for("the end of its series", lambda: prometheus.value(of_first) is None)
        equal(prometheus.value("mps_clients"), 1)
        equal(prometheus.value(user_launches), 2 * WORK["launches"])
        equal(prometheus.value('mps_group_launches_total{group="g"}'), WORK["launches"])
        third = worked(service, env={"MPS_GROUP": "g", "CUDA_MPS_CLIENT_PRIORITY": "2"})
        wait_for("the third", lambda: prometheus.value(user_launches) == 3 * WORK["launches"])
        wait_for("a rate", lambda: prometheus.query("rate(%s[30s]) > 0" % user_launches))
        check_graphs(prometheus)
        # Nothing of a scrape was refused, dropped or repeated.
        equal(prometheus.value('scrape_samples_scraped{job="mps"} - '
                               'scrape_samples_post_metric_relabeling'), 0)
        target, = prometheus.get("targets")["activeTargets"]
        equal((target["health"], target["lastError"]), ("up", ""))
        for process in (second, third):
            end(process)


def check_graphs(prometheus):
    """Every query of the dashboard is valid, and has data unless it shows rare events."""
    rare = ("mps_waiting_clients", "_failures_total", "_faults_total", "_refused_clients_total",
            "_foreground_slowdown_ratio")
    for text in dashboard_queries():
        query = text.replace("$__rate_interval", "1m").replace("$instance", ".*")
        assert "$" not in query, query
        found = wait_for("data of %s" % query, lambda query=query: prometheus.query(query) or
                         any(word in query for word in rare))
        assert found, query


def test_alerts():
    """A fault, and the end of the daemon."""
    port = free_port()
    with Prometheus(port) as prometheus:
        with mps.Service(options=["-m", str(port)]) as service:
            wait_for("a scrape", lambda: prometheus.value("mps_gpu_faults_total") == 0)
            equal({name for name, _ in prometheus.alerts()} - {"MpsDown"}, set())
            for _ in range(2):
                service.run_ok("fault")
            wait_for("the alerts", lambda: {("MpsGpuFault", "firing"), ("MpsQuarantine", "firing")}
                     <= prometheus.alerts())
            wait_for("no doubt", lambda: ("MpsDown", "pending") not in prometheus.alerts())
        wait_for("the daemon to be missed",
                 lambda: ("MpsDown", "pending") in prometheus.alerts())


if __name__ == "__main__":
    harness.main(globals())
