from multiprocessing import Process


def work(number):
    print("child", number)
    raise SystemExit(number)


if __name__ == "__main__":
    process = Process(target=work, args=(3,))
    process.start()
    process.join()
    print(process.exitcode)
