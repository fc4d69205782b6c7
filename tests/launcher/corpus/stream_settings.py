import sys

for stream in sys.stdin, sys.stdout, sys.stderr:
    print(
        stream.name, stream.encoding, stream.errors, stream.mode, stream.line_buffering
    )
    print(stream.fileno(), stream.isatty())
print(sys.stdout.write_through, sys.getfilesystemencoding(), sys.getdefaultencoding())
