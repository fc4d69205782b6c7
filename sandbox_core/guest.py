"""The guest: the first process in every sandbox. It runs the steps of one job and ends.

The host sends this text, then frames, over the container's stdin, and reads frames from its
stdout; nothing else leads in or out. From the host: B boot, F file, D its data, E end of the
files, I stdin, G go, C cancel. To the host: h hello, n the image has no such language, c a
compiler started, s the program started, o/e output, x step ended, v value, p display (a picture
or rich value), f file, d the data of either, q its end, k skipped, ! failed, z done.

It runs as root of the container with SETUID, SETGID and KILL only, and opens no path in a
folder that the program can write: when the last program is over it becomes the program's user
itself, and hands over the files as that (see guest_files.py). Its start-up is everybody's waiting
time: hence ``_signal``, whose Python half costs more to import than all the rest.
"""

import _signal
import os
import select
import time

from sandbox_core.guest_files import collect, unpack
from sandbox_core.guest_process import (
    describe_kernel,
    drop_privileges,
    forbid_user_namespaces,
    is_one_full,
    is_program,
    kill_all,
    start_helper,
    start_node,
    start_program,
    start_python,
)
from sandbox_core.guest_watch import Watch
from sandbox_core.guest_wire import (
    CHUNK,
    Wire,
    json_text,
    literal,
    take_frame,
)

BACKLOG = 1 << 18  # unsent bytes above which the program's pipes rest
COALESCE_SECONDS = 0.005
BURST = 1 << 15  # a read this long means that more is there: do not pause
IDLE_SECONDS = 60.0
LEASE_OVER = 75
READY = b"r"
FLAGS = (
    "cancelled",
    "timed_out",
    "memory_killed",
    "output_capped",
    "processes_killed",
    "processes_full",
    "disk_full",
)


class Guest:
    """One job, from the boot frame to ``done``."""

    def __init__(self):
        self.wire = Wire()
        self.boot = None
        self.job = None
        self.input_data = []
        self.program = None
        self.helper = None
        self.unpacking = False
        self.launcher = None  # what was started before the job, and waits for it
        self.ready = None  # its end of warming up, as long as we wait for that
        self.flags = dict.fromkeys(FLAGS, False)
        self.printed = 0
        self.announcement = b""  # of a step that has started
        self.value_path = ""  # of the last step that was started
        self.seconds = 0.0  # of the programs, without the compilers
        self.watch = None
        self.lease_end = time.monotonic() + 60
        self.wake, wake_write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_write, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def run(self):
        while self.boot is None:
            self.turn()
        forbid_user_namespaces()
        self.unpacking = True
        self.helper = start_helper(self.boot, lambda report: unpack(report, self.boot))
        if self.boot["preload"] or self.boot["node_hook"]:
            self.warm_up()
        self.watch = Watch(self.boot)
        self.watch.look_at_memory()  # takes milliseconds, and nobody waits yet
        self.wire.send(b"h", json_text(describe_kernel()))
        try:
            placed_at = self.await_unpacked()
            while self.job is None:
                self.turn()
            self.run_steps()
            self.collect_files(placed_at)
        except OSError as error:
            self.wire.send(b"!", json_text({"reason": str(error)}))
        self.finish()

    def warm_up(self):
        """Start an interpreter and wait until it can take a program, or has died."""
        while not self.helper.received:  # the home folder, which it looks into
            self.turn()
        if self.boot["preload"]:
            self.launcher = start_python(self.boot, self.boot["preload"])
        elif is_program(self.boot["env"]["PATH"], "node"):
            self.launcher = start_node(self.boot)
        else:
            return
        self.ready = self.launcher.ready
        while self.ready is not None:
            self.turn()

    # --- the poll loop -----------------------------------------------------------------

    def turn(self, wait=1.0):
        """One turn: wait for a descriptor or a timer, serve what is ready, look around."""
        now = time.monotonic()
        if now > self.lease_end:
            os._exit(LEASE_OVER)
        poll = select.poll()
        for descriptor, event in self.interests(now):
            poll.register(descriptor, event)
        pause = max(0.0, min(wait, self.next_timer(now) - now))
        for descriptor, _ in poll.poll(pause * 1000):
            self.serve(descriptor)
        self.wire.sender.flush()
        self.reap()
        if self.program is not None and self.program.status is None:
            self.look(time.monotonic())

    def interests(self, now):
        """(descriptor, event) for all that this turn should wake up for."""
        helper, program, unsent = self.helper, self.program, self.wire.sender.unsent
        yield self.wake, select.POLLIN
        if self.ready is not None:
            yield self.ready, select.POLLIN
        if not self.unpacking:  # then the unpacker reads it
            yield 0, select.POLLIN
        if unsent:
            yield 1, select.POLLOUT
        if helper is not None and helper.open:
            yield helper.source, select.POLLIN
        if program is not None:
            yield from program.interests(now, unsent < BACKLOG)

    def next_timer(self, now):
        timers = [self.lease_end]
        if self.program is not None:
            timers.append(self.watch.next)
            timers += [
                until for until in self.program.resting_until.values() if until > now
            ]
        return min(timers)

    def serve(self, descriptor):
        helper, program = self.helper, self.program
        if descriptor == 0:
            self.wire.receive()
            self.accept_frames()
        elif descriptor == self.wake:
            os.read(self.wake, 4096)
        elif descriptor == self.ready:
            if not os.read(descriptor, 1):  # it has died
                self.drop_launcher()
            self.ready = None
        elif helper is not None and descriptor == helper.source:
            helper.read()
        elif program is not None and descriptor in program.outputs:
            self.read_output(descriptor)
        elif program is not None:
            program.feed()

    def accept_frames(self):
        frame = take_frame(self.wire.received)
        while frame is not None:
            kind, payload = frame
            if kind == b"C":
                self.cancel()
            elif kind == b"B":
                self.boot = literal(payload)
                self.lease_end = time.monotonic() + self.boot["lease_seconds"]
            elif kind == b"G":
                self.job = literal(payload)
                self.lease_end = time.monotonic() + self.job["lease_seconds"]
            elif kind == b"I":
                self.input_data.append(payload)
            frame = take_frame(self.wire.received)

    def cancel(self):
        self.flags["cancelled"] = True
        kill_all()

    def read_output(self, descriptor):
        """Pass on one chunk of a program's pipe. Returns False when there is none."""
        program = self.program
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            program.close_output(descriptor)
            return False
        self.announce()
        room = self.job["output_bytes"] - self.printed
        self.printed += len(data)
        if room > 0:
            self.wire.send(program.outputs[descriptor], data[:room])
        if len(data) > room:
            self.flags["output_capped"] = True
            self.stop_program("output_capped")
        if len(data) < BURST:
            # Small writes come in bursts; one frame each would cost more than the program.
            program.resting_until[descriptor] = time.monotonic() + COALESCE_SECONDS
        return True

    def look(self, now):
        """Look at what the program uses, when it is time to."""
        if now < self.watch.next:
            return
        self.announce()
        flag = self.watch.verdict(now, self.job)
        if flag is not None:
            self.stop_program(flag)

    def stop_program(self, flag):
        """Kill all processes, for the first reason that there is."""
        if self.program.status is None:
            self.flags[flag] = True
            kill_all()

    def reap(self):
        """Reap what has died. Returns False when no child is left at all."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if self.program is not None and pid == self.program.pid:
                    self.program.status = status
        except ChildProcessError:
            return False

    def bury_all(self):
        """Kill and reap until waitpid proves that nothing is left."""
        kill_all()
        while self.reap():
            time.sleep(0.001)
            kill_all()

    # --- steps -------------------------------------------------------------------------

    def await_unpacked(self):
        """The file system's time after all files were placed, in ns. Raises OSError."""
        helper = self.helper
        kind, payload = READY, b""
        while kind == READY:
            frame = take_frame(helper.received)
            if frame is not None:
                kind, payload = frame
            elif helper.open:
                self.turn(IDLE_SECONDS)
            else:
                kind, payload = b"!", b"the unpacker was killed"
        helper.close()
        self.helper = None
        self.unpacking = False
        if kind != b"t":
            raise OSError("The files could not be placed: " + payload.decode())
        return int(payload)

    def run_steps(self):
        has_idle_launcher = self.launcher and not self.job["steps"][0]["warm"]
        if has_idle_launcher:
            self.dismiss_launcher()
        if has_idle_launcher or self.input_data:
            self.watch.look_at_memory()
        for index, step in enumerate(self.job["steps"]):
            if self.flags["cancelled"] or not self.run_step(index, step):
                break
        self.flags["processes_full"] = self.watch.full

    def run_step(self, index, step):
        """Run one step to its end; everything it started is dead then. True if it went well."""
        header = json_text({"step": index})
        if step["needs"] and not is_program(self.boot["env"]["PATH"], step["needs"]):
            self.wire.send(b"n", header)
            return False
        if step["compile"]:
            self.wire.send(b"c", header)
            compiler = start_program(self.boot, step["compile"], step["env"])
            code, number = self.follow(compiler, [], self.job["compile_seconds"])
            if code != 0:
                self.tell_end(index, code, number)
                return False
        self.value_path = step["value_path"]
        program = self.start_step(step)
        started = time.monotonic()
        self.announcement = header
        given, self.input_data = self.input_data, []
        code, number = self.follow(program, given, self.job["seconds"] - self.seconds)
        self.seconds += time.monotonic() - started
        self.tell_end(index, code, number)
        return code == 0

    def follow(self, program, given, seconds):
        """Wait until a program has ended, and bury all that it started. Gives its exit code and
        the signal that killed it, one of them None."""
        self.program = program
        self.watch.begin(seconds)
        program.supply(given)
        while program.status is None:
            self.turn()
        self.announce()
        if self.watch.left_a_crowd():
            self.flags["processes_killed"] = True
        self.bury_all()
        self.drain_outputs()
        self.flags["disk_full"] |= is_one_full(self.boot["folders"])
        program.close()
        self.program = None
        if os.WIFSIGNALED(program.status):
            return None, os.WTERMSIG(program.status)
        return os.WEXITSTATUS(program.status), None

    def tell_end(self, index, code, number):
        ended = {"step": index, "exit_code": code, "signal": number}
        self.wire.send(b"x", json_text(ended))

    def announce(self):
        """Tell that the step has started, once. Not at once: of a quick program this travels
        with the first output, and does not wake up the host beside it."""
        if self.announcement:
            self.wire.send(b"s", self.announcement)
            self.announcement = b""

    def start_step(self, step):
        launcher, self.launcher = self.launcher, None
        if launcher is None and step["launched"]:
            launcher = start_python(self.boot)
        if launcher is None:
            return start_program(self.boot, step["argv"], step["env"])
        return launcher.release(step)

    def dismiss_launcher(self):
        """The first step cannot have what waits: nothing of it shall be in its way."""
        self.drop_launcher()
        self.bury_all()

    def drop_launcher(self):
        self.launcher.close()
        self.launcher.program.close()
        self.launcher = None

    def drain_outputs(self):
        """All writers are dead, so an empty pipe stays empty. Do not wait for its end: a
        writing end that was on its way through a socket may outlive its processes."""
        for descriptor in list(self.program.outputs):
            while self.read_output(descriptor):
                while self.wire.sender.unsent >= BACKLOG:
                    self.turn()

    # --- the end -----------------------------------------------------------------------

    def collect_files(self, placed_at):
        """Hand over what the programs have left, as their user: every process of theirs is
        dead. Our stdout is the collector's then, which bounds its own time; the host's time
        to read is bounded by the lease."""
        while self.wire.sender.unsent:
            self.turn()
        _signal.signal(_signal.SIGALRM, lambda *_: os._exit(LEASE_OVER))
        left = max(0.001, self.lease_end - time.monotonic())
        _signal.setitimer(_signal.ITIMER_REAL, left)
        drop_privileges(self.boot)
        collect(self.boot["work"], self.job, placed_at, self.value_path)

    def finish(self):
        self.wire.send(b"z", json_text(dict(self.flags, seconds=self.seconds)))
        while self.wire.sender.unsent:
            self.turn()
        os._exit(0)


if __name__ == "__main__":
    Guest().run()
