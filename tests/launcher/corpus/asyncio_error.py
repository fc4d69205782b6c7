import asyncio


async def fail():
    raise ValueError("inside the loop")


asyncio.run(fail())
