# One huge allocation, touched as fast as it goes.
# expect: memory_limit
# limits: memory_mib=128
# shows: before
print("before")
held = bytearray(b"x") * (4 << 30)
