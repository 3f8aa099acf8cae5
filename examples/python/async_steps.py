"""Async code in steps: requests that take turns on one thread, a generator that makes batches, and sampled stacks.

    pip install "$TPTRACE/bindings/python"
    python async_steps.py [FOLDER]
"""

import asyncio
import pathlib
import sys

import tptrace


@tptrace.span("load")
def batches(count):
    """A decorated generator is a slice each time that it makes an item."""
    for number in range(count):
        yield list(range(number, number + 4))


@tptrace.span("decode")
def decode(text):
    return sum(int(part) for part in text.split())


@tptrace.span("fetch")
async def fetch(number):
    await asyncio.sleep(0.001 * (number % 3 + 1))
    return f"{number} {number}"


@tptrace.span("request")
async def request(number):
    """A row of its own, in which what it awaits is nested; on the thread, a slice each time that it runs."""
    text = await fetch(number)
    with tptrace.span("answer", number=number):
        await asyncio.sleep(0)
    return decode(text)


async def main(folder):
    with tptrace.Profiler(
        schedule=tptrace.schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=tptrace.trace_handler(folder, "async"),
        sampler={"period_ms": 1},
    ) as profiler:
        for batch in batches(8):
            tptrace.counter("answers", sum(await asyncio.gather(*map(request, batch))))
            profiler.step()


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "traces")
    asyncio.run(main(target))
    for path in sorted(target.iterdir()):
        print(path)
