"""A Node.js that waits in a warm sandbox runs a program as a new one does."""

import pytest

from sandbox_core.outcome import Outcome
from tests.contract.runners import opened, opened_warm
from tests.contract.runs import contents, describe, run

COMMON = r"""
const fs = require("fs");
const { fork } = require("child_process");
const { Worker, isMainThread, parentPort } = require("worker_threads");
if (process.argv[2] === "child") {
  process.send([process.argv.slice(2), process.execArgv]);
  process.disconnect();
} else if (!isMainThread) {
  parentPort.postMessage([process.execArgv, Object.keys(require.cache)]);
} else {
  console.log(process.argv, process.execArgv, process.title, process.env);
  console.log(require.main === module, module.id, module.filename, module.paths, module.parent);
  console.log(Object.keys(require.cache), process._preload_modules, Object.keys(globalThis));
  console.log(require("module").runMain.toString().includes("release"), process.cwd());
  console.log(fs.readdirSync("/proc/self/fd"), fs.readFileSync(0, "utf8"), RegExp.$1);
  console.log(fs.readdirSync("."), new Error("here").stack);
  fs.writeFileSync("made.txt", "made");
  fork(__filename, ["child"]).on("message", (told) => {
    console.log(told);
    new Worker(__filename).on("message", (seen) => console.log(seen));
  });
}
"""
PROGRAMS = {
    "common": COMMON,
    "module": "import fs from 'fs';\nconsole.log(import.meta.url, process.argv, "
    "fs.readFileSync(0, 'utf8'), await Promise.resolve(1));\n",
    "error": "function f() { null.x; }\nconsole.log(1);\nf();\n",
    "rejection": "process.on('exit', (code) => console.log('exit', code));\n"
    "Promise.reject(new Error('no'));\n",
    "syntax": "console.log(1);\nlet = ;\n",
    "status": "setTimeout(() => process.exit(7), 20);\n"
    "process.on('exit', (code) => console.log(code));\n",
    "signal": "process.kill(process.pid, 'SIGTERM');\nsetTimeout(() => {}, 5000);\n",
}


@pytest.fixture(scope="module")
def cold_runner(first_engine, image):
    with opened(first_engine, image) as runner:
        yield runner


@pytest.fixture(scope="module")
def warm_runner(first_engine, image):
    with opened_warm(first_engine, image, ()) as runner:
        yield runner


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_the_same(cold_runner, warm_runner, name):
    cold, warm = (
        run(runner, PROGRAMS[name], "javascript", stdin=b"given")
        for runner in (cold_runner, warm_runner)
    )
    assert warm.evidence["warm"] == "yes"
    assert str(warm.stdout) == str(cold.stdout)
    assert str(warm.stderr) == str(cold.stderr)
    assert contents(warm) == contents(cold)
    assert (warm.outcome, warm.exit_code, warm.signal) == (
        cold.outcome,
        cold.exit_code,
        cold.signal,
    )


def test_other_languages_run_where_node_waits(warm_runner):
    """The pool has what was asked for last; what waits is gone before the program starts."""
    assert run(warm_runner, "console.log(1)", "javascript").outcome is Outcome.OK
    code = "import os\nprint([name for name in os.listdir('/proc') if name.isdigit()])"
    result = run(warm_runner, code)
    assert result.evidence["warm"] == "yes"
    assert len(str(result.stdout).split(",")) == 2, describe(result)
