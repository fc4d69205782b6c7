import os
import signal

print(os.getcwd(), os.listdir(), os.getuid() == os.geteuid())
print(oct(os.umask(0o022)), os.getpid() == os.getsid(0) == os.getpgid(0))
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE))
with open("/proc/self/status") as status:
    print([line for line in status if line[:6] in ("SigBlk", "SigIgn", "SigCgt")])
