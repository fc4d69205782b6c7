"""What a waiting Node.js does before its program: the text of a module for ``node -r``.

A Node.js that has started takes a program at once; starting takes it 0.4 s in gVisor. It says
on descriptor 201 that it is there, and waits on 200 for the same release as the launcher of
Python does, of which it reads the ``path``. Everything else is as with ``node PATH``; only the
process's age and ``process.moduleLoadList`` are other ones. Worker threads load this module as
well, which Node.js inherits to them.
"""

__all__ = ["NODE_HOOK"]

NODE_HOOK = """\
"use strict";
const { isMainThread } = require("worker_threads");
delete require.cache[__filename];
process.execArgv.length = 0;
process._preload_modules.length = 0;
if (isMainThread) {
  const fs = require("fs");
  const Module = require("module");
  const RELEASE = 200;
  const READY = 201;
  fs.writeSync(READY, "r");
  fs.closeSync(READY);
  const buffer = Buffer.alloc(65536);
  let message = "";
  while (!message.endsWith("\\0\\0")) {
    const size = fs.readSync(RELEASE, buffer);
    if (size === 0) process.exit(0);
    message += buffer.toString("utf8", 0, size);
  }
  fs.closeSync(RELEASE);
  const field = message.split("\\0").find((text) => text.startsWith("path="));
  const path = field.slice("path=".length);
  process.argv[1] = path;
  // Node.js starts the main program by this function, and lets a preloaded module replace it.
  // A getter and a bound function leave no trace, not even in the stack of an error.
  const usual = Object.getOwnPropertyDescriptor(Module, "runMain");
  Object.defineProperty(Module, "runMain", {
    configurable: true,
    get() {
      Object.defineProperty(Module, "runMain", usual);
      return usual.value.bind(Module, path);
    },
  });
}
"""
