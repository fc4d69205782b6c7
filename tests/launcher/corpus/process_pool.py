import concurrent.futures


def square(number):
    return number * number


if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        print(list(pool.map(square, range(3))))
