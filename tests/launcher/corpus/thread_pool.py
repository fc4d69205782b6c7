from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(4)
print(list(pool.map(lambda n: n * n, range(10))))
pool.submit(print, "submitted at the end")
