import cProfile
import io
import pstats


def work():
    return sum(range(10))


profile = cProfile.Profile()
profile.runcall(work)
stats = pstats.Stats(profile, stream=io.StringIO())
print(sorted(name for _, _, name in stats.stats))
cProfile.run("print(work())", "/dev/null")
