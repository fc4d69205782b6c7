import multiprocessing


class Point:
    def __init__(self, x):
        self.x = x


def move(point, connection):
    connection.send(Point(point.x + 1))


if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    here, there = context.Pipe()
    process = context.Process(target=move, args=(Point(1), there))
    process.start()
    print(here.recv().x)
    process.join()
