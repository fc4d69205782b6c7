import asyncio


async def worker(name, delay):
    await asyncio.sleep(delay)
    print("done", name)
    return name


async def main():
    print(await asyncio.gather(worker("b", 0.02), worker("a", 0.01)))


asyncio.run(main())
