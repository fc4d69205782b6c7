import multiprocessing


class Point:
    def __init__(self, x):
        self.x = x


def double(point):
    return Point(point.x * 2)


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print([point.x for point in pool.map(double, [Point(1), Point(2)])])
    pool.join()
    sum([1, 2])
