"""Rates, queues and caps, in one service and over two that share a Redis."""

import os
import socket
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from scripts.bringup.process import free_port
from tests.codebox.tokens import good_token


def test_a12_rate_limit(start_service):
    service = start_service(rate_limit_rps=5, rate_limit_burst=10, max_waiting=100)
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: service.run("print(1)"), range(40)))
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) == {200, 429}
    # On a slow machine the calls need more than a second, so that some more are due.
    assert 10 <= statuses[200] <= 25
    refused = next(answer for answer in answers if answer.status_code == 429)
    seconds = int(refused.headers["Retry-After"])
    assert 1 <= seconds <= 2
    assert f"wait {seconds} second" in refused.json()["message"]
    assert service.run("print(1)", token=good_token("u2")).status_code == 200
    time.sleep(8)
    assert service.run("print(1)").status_code == 200


def test_u04_one_users_crowd_holds_up_nobody(start_service):
    service = start_service(max_concurrent=4, max_concurrent_per_user=2)
    code = "import time; time.sleep(1)"
    running = []
    with ThreadPoolExecutor(21) as pool:
        crowd = [pool.submit(service.run, code) for _ in range(20)]
        time.sleep(1)
        begun = time.monotonic()
        assert service.run("print(2)", token=good_token("u2")).status_code == 200
        other_seconds = time.monotonic() - begun
        while not all(future.done() for future in crowd):
            health = time.monotonic()
            assert service.get("/health").ok
            assert time.monotonic() - health < 1
            running.append(service.metric("codebox_running"))
            time.sleep(0.2)
    assert [future.result().json()["outcome"] for future in crowd] == ["ok"] * 20
    assert max(running) <= 2
    assert other_seconds < 5


def test_queue_is_bounded(start_service):
    service = start_service(
        max_concurrent_per_user=1, max_waiting_per_user=2, max_wait_seconds=60
    )
    code = "import time; time.sleep(4)"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: service.run(code), range(8)))
    statuses = Counter(answer.status_code for answer in answers)
    assert statuses == {200: 3, 429: 5}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["Retry-After"]
    assert "runs are waiting" in refused.json()["message"]


def test_run_that_waits_too_long_is_told(start_service):
    service = start_service(max_concurrent_per_user=1, max_wait_seconds=2)
    slow = threading.Thread(target=service.run, args=("import time; time.sleep(6)",))
    slow.start()
    time.sleep(1)
    plain = service.run("print(1)").json()
    slow.join()
    assert plain["outcome"] == "sandbox_error"
    assert "waited too long" in plain["message"]


class Redis:
    """A Redis of our own on a free port of the loopback."""

    def __init__(self, folder):
        self._folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self):
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "save": "",
            "daemonize": "no",
        }
        command = ["redis-server"]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env=os.environ
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("redis-server did not start")

    def stop(self):
        self._process.terminate()
        self._process.wait(20)


@pytest.fixture
def redis(tmp_path):
    server = Redis(tmp_path)
    yield server
    server.stop()


def test_u07_replicas_share_rates_and_token_ids(start_service, redis):
    settings = {"storage_url": redis.url, "rate_limit_rps": 0.1, "rate_limit_burst": 4}
    replicas = [start_service(**settings) for _ in range(2)]
    statuses = [replicas[n % 2].run("print(1)").status_code for n in range(6)]
    assert statuses == [200, 200, 200, 200, 429, 429]
    once = good_token("u2", jti="0123456789abcdef")
    assert replicas[0].get("/v1/languages", once).status_code == 200
    assert replicas[1].get("/v1/languages", once).status_code == 401


def test_u07_replicas_share_caps_and_a_dead_one_gives_them_back(start_service, redis):
    settings = {"storage_url": redis.url, "max_concurrent_per_user": 1}
    first, second = (start_service(**settings) for _ in range(2))

    def sleep():
        with pytest.raises(requests.ConnectionError):
            first.run("import time; time.sleep(99)")

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    time.sleep(4)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(second.run("print(1)")))
    waiting.start()
    time.sleep(3)
    assert answers == []
    assert second.run("print(2)", token=good_token("u2")).json()["outcome"] == "ok"
    first.process.kill()
    first.process.wait(10)
    waiting.join(60)
    sleeper.join(10)
    assert answers[0].json()["outcome"] == "ok"


def test_lost_redis_is_a_closed_door_and_opens_again(start_service, redis, wait_until):
    service = start_service(storage_url=redis.url)
    assert service.run("print(1)").status_code == 200
    redis.stop()
    answer = service.run("print(1)")
    assert answer.status_code == 503
    assert "limits cannot be checked" in answer.json()["message"]
    redis.start()
    wait_until(lambda: service.get("/ready").status_code == 200, 20)
    assert service.run("print(1)").status_code == 200
