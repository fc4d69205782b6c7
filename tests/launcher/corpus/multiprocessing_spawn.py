import multiprocessing
import sys

print("imported as", __name__, sys.argv[0])


def work(queue):
    queue.put((work.__module__, __name__, sys.argv[0], __file__))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
